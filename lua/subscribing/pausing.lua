--[[
Pausing: while a subscriber is paused (`paused_at` in its hash), nothing is delivered to it and all of its jobs wait.

`paused_by` is `operator` or `subscriber`. It is missing if the subscriber was paused because its callback answered 410
(Gone).
]]
local jobs = include('delivering/jobs')
local subscribers = include('delivering/subscribers')
local waiting = include('delivering/waiting')
local pausing = {}

-- Ranks of the causes of a pause. A new cause replaces the present one only if its rank is higher.
local RANKS = { callback_gone = 1, subscriber = 2, operator = 3 }

-- Returns the cause of the pause (a key of RANKS), or nothing if the subscriber is not paused.
function pausing.paused_by(call, token)
  local paused_at, by = unpack(redis.call('HMGET', call.keys.subscriber(token), 'paused_at', 'paused_by'))
  if paused_at then return by or 'callback_gone' end
end

-- Pauses a subscriber. A later pause keeps the first `paused_at`. Returns true if the subscriber was not paused before.
function pausing.pause(call, token, by)
  local subscriber, before = call.keys.subscriber(token), pausing.paused_by(call, token)
  if before and RANKS[before] >= RANKS[by] then return end
  redis.call('HSETNX', subscriber, 'paused_at', call.now_ms)
  if by == 'callback_gone' then
    -- A pause after a 410 has no `paused_by`. The field may be left over from a pause in an earlier release, which did
    -- not delete it at the end of the pause.
    redis.call('HDEL', subscriber, 'paused_by')
  else
    redis.call('HSET', subscriber, 'paused_by', by)
  end
  return not before
end

-- Ends a pause, no matter who has paused the subscriber. Returns true if the subscriber was paused.
function pausing.lift(call, token)
  return redis.call('HDEL', call.keys.subscriber(token), 'paused_at', 'paused_by') > 0
end

-- Makes the deliveries of a subscriber's `max` oldest failed batches due now, if they are scheduled for later.
function pausing.try_failed(call, token, max)
  for _, bid in ipairs(redis.call('ZRANGE', call.keys.batches_retrying(token), 0, max - 1)) do
    local job = jobs.delivery_of(bid)
    if redis.call('ZREM', call.keys.jobs_scheduled('main'), job) == 1 then jobs.make_instant(call, 'main', job) end
  end
end

-- Ends the wait of a subscriber after failures, so that workers deliver to it at once. The subscriber's probe, for
-- which its other jobs wait, becomes due now, and so do up to `max` waiting jobs. If it has neither, the delivery of
-- its oldest failed batch becomes due now.
function pausing.try_at_once(call, token, max)
  local subscriber = call.keys.subscriber(token)
  redis.call('HDEL', subscriber, 'throttled_until')
  local probe = redis.call('HGET', subscriber, 'probe')
  local released = probe and subscribers.release_probe(call, token, probe)
  local became_instant = waiting.make_instant(call, token, max)
  if not (released or became_instant) then pausing.try_failed(call, token, 1) end
end

return pausing
