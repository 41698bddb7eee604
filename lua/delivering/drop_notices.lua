--[[
Drop notices: reports to a subscriber about its events that the bus had to drop.

Drops are a list of field, value, …. The fields are `batches` and `events` (their numbers), `from` and `to` (the times
in ms at which the oldest and the newest of these batches were created), and for each topic `topic:{topic}`: its number
of events. The totals of a subscriber also have `last_at`, the time (ms) at which the bus last dropped events of the
subscriber.
]]
local many = include('store/many')
local drop_notices = {}

local function sum_of(field, value, before)
  if not before then return value end
  if field == 'from' then return math.min(value, before) end
  if field == 'to' then return math.max(value, before) end
  return value + before
end

-- Adds `drops`, a list such as { 'events', 12, 'from', 1700000000000 }, to the earlier drops in a Redis hash. Numbers
-- of events and batches are added up. `from` becomes the earlier of the two times, and `to` the later one.
local function add_drops(hash, drops)
  local fields, sums = {}, {}
  for i = 1, #drops, 2 do fields[#fields + 1] = drops[i] end
  local before = many.get_fields(hash, fields)
  for i, field in ipairs(fields) do
    sums[2 * i - 1], sums[2 * i] = field, sum_of(field, tonumber(drops[2 * i]), tonumber(before[i]))
  end
  many.command('HSET', hash, sums)
end

-- Adds what was dropped to the notice that the subscriber will get, and to the subscriber's totals. Does nothing if the
-- subscriber has left.
function drop_notices.add(call, token, drops)
  if redis.call('EXISTS', call.keys.subscriber(token)) == 0 then return end
  add_drops(call.keys.drop_notice(token), drops)
  add_drops(call.keys.dropped(token), drops)
  redis.call('HSET', call.keys.dropped(token), 'last_at', call.now_ms)
end

-- Returns the drop notice (field, value, …) to send with the batch `bid`, or nothing. Only one batch of a subscriber
-- carries a notice at a time. The field `teller` of the notice is the UID of that batch. If no batch carries a notice,
-- `bid` gets one about all drops that were not yet reported.
function drop_notices.give(call, token, bid)
  local waiting, carried = call.keys.drop_notice(token), call.keys.drop_notice_carried(token)
  if redis.call('EXISTS', waiting, carried) == 0 then return end
  local carrier = redis.call('HGET', carried, 'teller')
  if carrier == bid then return redis.call('HGETALL', carried) end
  if carrier then
    if redis.call('EXISTS', call.keys.batch(carrier)) == 1 then return end
    -- The batch that carried the notice was dropped, or became a dead letter, so the subscriber never accepted the
    -- notice. The drops in it are reported again, together with the new ones.
    redis.call('HDEL', carried, 'teller')
    add_drops(waiting, redis.call('HGETALL', carried))
  end
  if redis.call('EXISTS', waiting) == 0 then return end
  redis.call('RENAME', waiting, carried)
  redis.call('HSET', carried, 'teller', bid)
  return redis.call('HGETALL', carried)
end

-- Returns the drop notice (field, value, …) if this batch carries it, otherwise nothing.
function drop_notices.carried_by(call, token, bid)
  local carried = call.keys.drop_notice_carried(token)
  if redis.call('HGET', carried, 'teller') == bid then return redis.call('HGETALL', carried) end
end

-- Deletes the drop notice of a subscriber if one of the accepted batches `bids` carried it.
function drop_notices.forget(call, token, bids)
  local carrier = redis.call('HGET', call.keys.drop_notice_carried(token), 'teller')
  for _, bid in ipairs(carrier and bids or {}) do
    if bid == carrier then redis.call('DEL', call.keys.drop_notice_carried(token)) end
  end
end

return drop_notices
