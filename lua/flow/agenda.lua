--[[
Agenda: the things that wait for their time: topics with delayed events, triggers, and joins with open keys. Each kind
has a sorted set whose scores are times in ms. The scheduler (src/maintenance/scheduler.ts) sleeps until the first entry
of any kind, or the first scheduled job, is due.
]]
local agenda = {}

-- If a due entry, such as a trigger, cannot be published because an outbox is full (outboxes.lua), a worker tries again
-- after this time.
agenda.WAIT_MS = 1000

local function first_ms(entries)
  return tonumber(redis.call('ZRANGE', entries, 0, 0, 'WITHSCORES')[2]) or math.huge
end

-- Returns the time (µs) until the first entry of a sorted set is due: 0 if it is due already, nil if there is no entry.
function agenda.due_in_us(call, entries)
  local first = first_ms(entries)
  if first ~= math.huge then return math.max(0, first * 1000 - call.now_us) end
end

-- Enters `member` in a sorted set for the time `due_ms`, or moves it there. Wakes the scheduler if it is the first now.
function agenda.enter(call, entries, member, due_ms)
  if due_ms < first_ms(entries) then call.wakes.due = true end
  redis.call('ZADD', entries, string.format('%d', due_ms), member)
end

-- Lets a due entry, such as a trigger, wait until an outbox has room for its events.
function agenda.postpone(call, entries, member)
  redis.call('ZADD', entries, string.format('%d', call.now_ms + agenda.WAIT_MS), member)
end

-- Returns true if `score` is right for an entry that is due at `due_ms`. It is right if it is `due_ms`, or if the entry
-- is due and was postponed to `score`.
function agenda.is_placed(call, score, due_ms)
  if not score or not due_ms then return false end
  return score == due_ms or due_ms <= math.min(call.now_ms, score) and score <= call.now_ms + agenda.WAIT_MS
end

return agenda
