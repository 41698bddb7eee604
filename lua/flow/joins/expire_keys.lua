#!lua
--[[
expire_keys: close the join keys of a join that were not complete in time, and publish events about them if the join has
a topic for such events.

A join key expires `within_ms` after it was opened, but not before the join has counted all events that the bus accepted
by then. So the join key stays open while the queue of the join has a batch from before that time. The queue has all
events that other partitions accepted before `moved_until_ms`; nil means that there are no other partitions. A call
closes at most `max_closed` join keys, the oldest first, and publishes a limited number of copies (a copy is an event
for one subscriber). If more join keys have expired, the join stays due. `version` is the time at which the join was put
last, as the caller knows it. If the join was put again since, nothing changes. `expiry_refusal` is the reason if the
events about the closed join keys could not be published. While the topic for these events takes none, because an outbox
is full (outboxes.lua), nothing is closed, and the join is tried again after a second.
]]
local agenda = include('flow/agenda')
local join_work = include('flow/joins/join_work')
local open_keys = include('flow/joins/open_keys')

-- An expired join key stays open until the join has counted all events that the bus accepted before the key expired,
-- because they may complete it. This is the time (ms) after which the bus looks at the key again.
local LOOK_AGAIN_MS = 250

-- Maximum number of batches whose times `counted_until` reads. Reading 300 takes Redis about 0.3 ms.
local MAX_LOOKED = 300

-- Returns a time (ms): the join has counted all events that the bus accepted before this time. It is the time of the
-- oldest batch in the join's queue, or now if the queue is empty.
--
-- If there are other partitions, their events reach the queue late. Only those that they accepted before
-- `moved_until_ms` are surely in the queue, so the result is at most `moved_until_ms`. Also, the oldest batch may be
-- anywhere in the queue, so all batches are read. If there are more than MAX_LOOKED, the result is 0, so that no join
-- key expires.
local function counted_until(call, token, moved_until_ms)
  local keys, until_ms = call.keys, math.min(call.now_ms, moved_until_ms or math.huge)
  local queue, looked = keys.batches_queued(token), moved_until_ms and MAX_LOOKED or 1
  if moved_until_ms and redis.call('ZCARD', queue) > MAX_LOOKED then return 0 end
  for _, bid in ipairs(redis.call('ZRANGE', queue, 0, looked - 1)) do
    until_ms = math.min(until_ms, tonumber(redis.call('LINDEX', keys.batch(bid), 1)) or until_ms)
  end
  return until_ms
end

return function(call, args)
  local token, nothing = args.token, { expired = 0, published = {} }
  if redis.call('HGET', call.keys.subscriber(token), 'subscribed_at') ~= args.version then return nothing end
  local until_ms = counted_until(call, token, args.moved_until_ms) - args.within_ms
  local work = join_work.begin(call, args)
  if join_work.must_wait(work.expiry_outlet) then
    open_keys.schedule(call, token, args.within_ms, agenda.WAIT_MS)
    return nothing
  end
  for _, key in ipairs(open_keys.oldest(work.open, args.max_closed, until_ms)) do
    if join_work.is_full(work) then break end
    join_work.expire(work, key)
  end
  local published = join_work.store(call, work)
  local is_left = #open_keys.oldest(work.open, 1, until_ms) > 0
  open_keys.schedule(call, token, args.within_ms, not is_left and LOOK_AGAIN_MS or nil)
  return {
    expired = work.expired, published = published,
    expiry_refusal = work.expired > 0 and work.expiry_outlet and work.expiry_outlet.refusal or nil,
  }
end
