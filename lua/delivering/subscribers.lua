--[[
Subscribers: writes the changes that deliveries make to the hash of a subscriber.
]]
local attempts = include('delivering/attempts')
local defaults = include('store/defaults')
local jobs = include('delivering/jobs')
local slow_deliveries = include('delivering/slow_deliveries')
local subscribers = {}

local function change_health(subscriber, points, change)
  local before = tonumber(points)
  local health = math.max(0, math.min(defaults.perfect_health, (before or defaults.perfect_health) + change))
  if health ~= before then redis.call('HSET', subscriber, 'health_points', health) end
end

-- Returns true if a delivery was sent to `callback`, and the subscriber has another callback by now, or has left.
function subscribers.has_moved(call, token, callback)
  return callback and redis.call('HGET', call.keys.subscriber(token), 'callback') ~= callback
end

-- Stores the consequences of a failed delivery for its subscriber. It is not an error if the subscriber has left.
-- `failure` has the batch (`bid`), the `attempt` as JSON (nil if there is none to add to the history), `damage` (health
-- points to lose), `throttle_ms` (time in which no delivery begins) and the `callback` that failed. If the subscriber
-- has another callback by now, `throttle_ms` counts as 0.
function subscribers.fail(call, token, failure)
  local subscriber = call.keys.subscriber(token)
  if failure.attempt then attempts.note(call, failure.bid, failure.attempt) end
  if redis.call('EXISTS', subscriber) == 0 then return end
  if failure.damage > 0 then
    change_health(subscriber, redis.call('HGET', subscriber, 'health_points'), -failure.damage)
  end
  if failure.throttle_ms > 0 and not subscribers.has_moved(call, token, failure.callback) then
    -- Another failed delivery may already have stored a later time, which must stay.
    local before = tonumber(redis.call('HGET', subscriber, 'throttled_until')) or 0
    redis.call('HSET', subscriber, 'throttled_until', math.max(before, call.now_ms + failure.throttle_ms))
  end
end

-- Updates a subscriber that has accepted batches, by the sums in `sum` (finishing.lua):
--   - Adds `events` to the subscriber's number of sent events, and `heal` to its health points, which are 100 at most.
--   - If the last delivery (`took_ms`) took longer than `slow_ms`, makes the subscriber slow. Otherwise the subscriber
--     is no longer slow, unless another delivery to it is slow.
--   - The subscriber no longer counts as failing.
-- Returns whether the subscriber still exists, and a true value if it was limited to one delivery at a time until now,
-- for example because it was failing or new.
function subscribers.heal(call, token, sum, slow_ms)
  local subscriber = call.keys.subscriber(token)
  local callback, health, throttled, slow, probe =
    unpack(redis.call('HMGET', subscriber, 'callback', 'health_points', 'throttled_until', 'slow', 'probe'))
  if not callback then return false end
  local first = redis.call('HINCRBY', subscriber, 'sent', sum.events) == sum.events
  change_health(subscriber, health, sum.heal)
  if sum.took_ms > slow_ms then
    redis.call('HSET', subscriber, 'slow', 1)
  elseif slow and not slow_deliveries.has_any(call, token, slow_ms) then
    redis.call('HDEL', subscriber, 'slow')
  end
  if throttled then redis.call('HDEL', subscriber, 'throttled_until') end
  if probe then subscribers.release_probe(call, token, probe) end
  return true, probe or throttled or first
end

-- Makes the probe of a subscriber an ordinary job, so that the subscriber's other jobs may run. If the probe was
-- scheduled for later, it becomes instant, and the result is true. Otherwise the probe stays in its list.
function subscribers.release_probe(call, token, probe)
  redis.call('HDEL', call.keys.subscriber(token), 'probe')
  local was_scheduled = redis.call('ZREM', call.keys.jobs_scheduled('main'), probe) == 1
  if was_scheduled then jobs.make_instant(call, 'main', probe) end
  return was_scheduled
end

return subscribers
