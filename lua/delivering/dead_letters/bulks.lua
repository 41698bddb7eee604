--[[
Bulks: a *bulk* is the retry or purge of all dead letters that match a filter. The record of a bulk has the filter, the
progress and the counts of what was done. A step is one script call, which changes some letters and the record together.
So each letter counts once, even if several workers make steps, or a worker repeats a step.

A bulk walks through the letters of one queue after another, by the time of their death, the oldest first. A queue has
the letters of one subscriber, or of all. The record has the time and the UID of the last letter that was looked at, so
that the next step continues there.
]]
local calls = include('store/calls')
local merging = include('records/merging')
local bulks = {}

-- Redis deletes the record of a bulk operation on dead letters this long after its last change, or after its job has
-- last waited for memory.
local EXPIRY_MS = 86400 * 1000

local FIELDS = {
  'id', 'state', 'queue', 'queue_count', 'reason', 'from_ms', 'until_ms', 'at_ms', 'at_id', 'matched', 'done', 'left',
}

local function read_record(call, args, state)
  local values, record = redis.call('HMGET', call.keys.bulk(args.owner), unpack(FIELDS)), {}
  for i, field in ipairs(FIELDS) do record[field] = values[i] or nil end
  if record.id == args.id and record.state == state and tonumber(record.queue) == args.list_index then return record end
end

-- Returns the dead letters that a bulk operation looks at next, at most `args.max`, each with its UID and the time of
-- its death. Also returns true if there are more. If `args.token` is given, returns only letters of this subscriber.
-- `record` is the hash of the operation.
local function next_letters(call, args, record)
  local keys = call.keys
  local index = args.token and keys.dead_letters_of(args.token) or keys.dead_letters_index()
  -- Another program may have overwritten an index with a key of another type. If it is the index of one subscriber
  -- (`args.token`), it counts as empty, and the operation goes on with the next subscriber. If it is the index of all
  -- dead letters, the error is thrown, because no other index follows.
  local function read(...)
    if not args.token then return redis.call('ZRANGEBYSCORE', ...) end
    return calls.read_or_nil('ZRANGEBYSCORE', ...) or {}
  end
  local found = {}
  -- The last step stopped at the letter `at_id`, which died at `at_ms`. First come the letters that died in the same
  -- millisecond and have larger ids. This reads all letters of that millisecond. They are few: one script call makes
  -- some 300 dead letters at most, and only a few calls fit into a millisecond.
  for _, bid in ipairs(record.at_ms and read(index, record.at_ms, record.at_ms) or {}) do
    if merging.is_larger(bid, record.at_id) then found[#found + 1] = { bid, record.at_ms } end
  end
  local from = record.at_ms and '(' .. record.at_ms or record.from_ms or '-inf'
  local more = read(index, from, record.until_ms, 'WITHSCORES', 'LIMIT', 0, args.max + 1)
  for i = 1, #more, 2 do found[#found + 1] = { more[i], more[i + 1] } end
  local letters = {}
  for i = 1, math.min(#found, args.max) do letters[i] = found[i] end
  return letters, #found > #letters
end

-- Begins a step of a bulk operation, which handles the dead letters of one subscriber after another. Returns a table:
--   args    the arguments of the script
--   record  the filter and the progress of the operation
--   bids    the UIDs of the next letters that match the filter
--   state   `going` if this subscriber has more letters, `next` if another subscriber follows, otherwise `over`
--   last    the letter after which the next step continues; only if `state` is `going`
-- Returns nothing in these cases:
--   - The client or root that began this operation (`args.owner`) has begun another one since.
--   - The operation is no longer in the state `wanted`.
--   - Another worker has finished this subscriber, number `args.list_index` in the operation's list.
function bulks.begin_step(call, args, wanted)
  local record = read_record(call, args, wanted)
  if not record then return end
  local letters, follow = next_letters(call, args, record)
  local step = { args = args, record = record, bids = {}, state = 'going', last = letters[#letters] }
  if not follow then
    step.state, step.last = args.list_index + 1 >= tonumber(record.queue_count) and 'over' or 'next', nil
  end
  for _, letter in ipairs(letters) do
    local bid = letter[1]
    if not record.reason or calls.read_or_nil('HGET', call.keys.dead_letter_about(bid), 'reason') == record.reason then
      step.bids[#step.bids + 1] = bid
    end
  end
  return step
end

-- Returns the dead letters of `bids` that can be read. Leaves out a letter if another program has replaced one of its
-- keys by a key of another type: the bulk operation would fail at this letter again and again. `retries` is true if the
-- letters will be retried, which uses more keys than a purge.
function bulks.readable(call, bids, retries)
  local keys, readable = call.keys, {}
  for _, bid in ipairs(bids) do
    local token = calls.read_or_nil('LINDEX', keys.dead_letter(bid), 0)
    local is_readable = token ~= nil and calls.read_or_nil('LLEN', keys.attempts(bid))
      and (not token or calls.read_or_nil('ZCARD', keys.dead_letters_of(token)))
      and (not token or not retries or calls.read_or_nil('ZCARD', keys.batches_queued(token)))
      and (not token or not retries or calls.read_or_nil('HLEN', keys.subscriber(token)))
    if is_readable then readable[#readable + 1] = bid end
  end
  return readable
end

-- Stores the progress of a bulk operation. `counts` has new values for fields of its record. A script must make all its
-- other changes first. Otherwise, if it failed half-way, the next step would skip letters that were not handled.
function bulks.end_step(call, step, counts)
  local record, last, key, values = step.record, step.last, call.keys.bulk(step.args.owner), {}
  -- The next step continues after the letter `at_id`, which died at `at_ms`. If the next step is for another
  -- subscriber, `at_ms` is the earliest time that the filter permits, and `at_id` is empty, which comes before every
  -- UID.
  counts.at_ms, counts.at_id = last and last[2] or record.from_ms or '-inf', last and last[1] or ''
  if not last then counts.queue = step.state == 'over' and 0 or step.args.list_index + 1 end
  for field, value in pairs(counts) do values[#values + 1], values[#values + 2] = field, value end
  redis.call('PEXPIRE', key, EXPIRY_MS)
  redis.call('HSET', key, unpack(values))
end

-- Stores the progress after a step that has retried or purged `done` letters. The field `left` counts the other letters
-- of the step.
function bulks.note_handled(call, step, done)
  local record = step.record
  local counts = { done = record.done + done, left = record.left + #step.bids - done }
  if step.state == 'over' then counts.state, counts.ended_ms = 'ended', call.now_ms end
  bulks.end_step(call, step, counts)
end

function bulks.keep(call, owner) redis.call('PEXPIRE', call.keys.bulk(owner), EXPIRY_MS) end

return bulks
