--[[
Drop notices: reports to a subscriber about its events that the bus had to drop.

`gap:{token}` collects drops until one batch of the subscriber is assigned to carry a notice of them; then
`gap:telling:{token}` keeps them until that batch (its field `teller`) is taken. So each drop is in the notice
of one batch, at every attempt of it, and later drops go with the next.

Drops are a list of field, value, …: batches, events, from, to (ms), and topic:{topic} for each topic, its
events.
]]
local drop_notices = {}

-- How many fields are read and written in one command: Lua's unpack fails at 8,000 values.
local MAX_FIELDS = 1000

local function sum_of(field, value, before)
  if not before then return value end
  if field == 'from' then return math.min(value, before) end
  if field == 'to' then return math.max(value, before) end
  return value + before
end

local function add_drops(hash, drops)
  for first = 1, #drops, 2 * MAX_FIELDS do
    local fields = {}
    for i = first, math.min(first + 2 * MAX_FIELDS, #drops) - 1, 2 do fields[#fields + 1] = drops[i] end
    local before, after = redis.call('HMGET', hash, unpack(fields)), {}
    for i, field in ipairs(fields) do
      after[2 * i - 1] = field
      after[2 * i] = sum_of(field, tonumber(drops[first + 2 * i - 1]), tonumber(before[i]))
    end
    redis.call('HSET', hash, unpack(after))
  end
end

-- Adds to the subscriber's drop notice. Does nothing if the subscriber has left.
function drop_notices.add(call, token, drops)
  if redis.call('EXISTS', call.keys.subscriber(token)) == 0 then return end
  add_drops(call.keys.drop_notice(token), drops)
  add_drops(call.keys.dropped(token), drops)
end

-- The notice that this batch of the subscriber carries, or nothing. Its carrier is this batch from now on,
-- unless another batch carries one.
function drop_notices.give(call, token, bid)
  call.without_notice = call.without_notice or {}
  if call.without_notice[token] then return end
  local waiting, carried = call.keys.drop_notice(token), call.keys.drop_notice_carried(token)
  if redis.call('EXISTS', waiting, carried) == 0 then
    call.without_notice[token] = true
    return
  end
  local carrier = redis.call('HGET', carried, 'teller')
  if carrier and carrier ~= bid then
    if redis.call('EXISTS', call.keys.batch(carrier)) == 1 then return end
    -- The carrier was dropped or buried, and never taken.
    redis.call('HDEL', carried, 'teller')
    add_drops(waiting, redis.call('HGETALL', carried))
  end
  if carrier ~= bid then
    if redis.call('EXISTS', waiting) == 0 then
      call.without_notice[token] = true
      return
    end
    redis.call('RENAME', waiting, carried)
    redis.call('HSET', carried, 'teller', bid)
  end
  return redis.call('HGETALL', carried)
end

-- The notice that this batch carries already, or nothing.
function drop_notices.carried_by(call, token, bid)
  local carried = call.keys.drop_notice_carried(token)
  if redis.call('HGET', carried, 'teller') == bid then return redis.call('HGETALL', carried) end
end

-- These batches were taken: if one of them carried the notice, the subscriber has it.
function drop_notices.forget(call, token, bids)
  local carrier = redis.call('HGET', call.keys.drop_notice_carried(token), 'teller')
  for _, bid in ipairs(carrier and bids or {}) do
    if bid == carrier then redis.call('DEL', call.keys.drop_notice_carried(token)) end
  end
end

return drop_notices
