--[[
Subscribers: what deliveries change in the hash of one.
]]
local jobs = include('jobs')
local subscribers = {}

-- A subscriber has so many health points at first, and never more.
local PERFECT_HEALTH = 100
-- A subscriber that takes longer over a batch is slow.
local SLOW_MS = 1000
-- How many failed attempts at a batch are kept.
local MAX_ATTEMPTS_KEPT = 20

local function change_health(subscriber, points, change)
  local before = tonumber(points)
  local health = math.max(0, math.min(PERFECT_HEALTH, (before or PERFECT_HEALTH) + change))
  if health ~= before then redis.call('HSET', subscriber, 'health_points', health) end
end

-- A delivery failed. `failure` has its bid, the attempt as JSON (nil if nothing was tried), and what it costs
-- the subscriber: damage (health points) and throttle_ms. It is not an error if the subscriber has left.
function subscribers.fail(call, token, failure)
  local subscriber, attempts = call.keys.subscriber(token), call.keys.attempts(failure.bid)
  if failure.attempt then
    redis.call('RPUSH', attempts, failure.attempt)
    redis.call('LTRIM', attempts, -MAX_ATTEMPTS_KEPT, -1)
  end
  if redis.call('EXISTS', subscriber) == 0 then return end
  if failure.damage > 0 then
    change_health(subscriber, redis.call('HGET', subscriber, 'health_points'), -failure.damage)
  end
  if failure.throttle_ms > 0 then
    -- Another delivery that failed at the same time may have asked for a longer pause.
    local before = tonumber(redis.call('HGET', subscriber, 'throttled_until')) or 0
    redis.call('HSET', subscriber, 'throttled_until', math.max(before, call.now_ms + failure.throttle_ms))
  end
end

-- Batches of `events` events were taken, the last of them within `took_ms`. True if that ended the
-- subscriber's trial.
function subscribers.heal(call, token, events, heal, took_ms)
  local subscriber = call.keys.subscriber(token)
  local callback, health, throttled, slow, trial_job =
    unpack(redis.call('HMGET', subscriber, 'callback', 'health_points', 'throttled_until', 'slow', 'probe'))
  if not callback then return false end
  local first = redis.call('HINCRBY', subscriber, 'sent', events) == events
  change_health(subscriber, health, heal)
  if took_ms > SLOW_MS then
    redis.call('HSET', subscriber, 'slow', 1)
  elseif slow then
    redis.call('HDEL', subscriber, 'slow')
  end
  if throttled then redis.call('HDEL', subscriber, 'throttled_until') end
  if trial_job then subscribers.release_trial_job(call, token, trial_job) end
  return trial_job or throttled or first
end

-- Ends the trial of a subscriber. Its trial job becomes instant if it was scheduled for later. A trial job
-- that waits for a share stays there: all other jobs of its lane wait too, so nothing ends the trial meanwhile.
function subscribers.release_trial_job(call, token, trial_job)
  redis.call('HDEL', call.keys.subscriber(token), 'probe')
  local was_scheduled = redis.call('ZREM', call.keys.jobs_scheduled('main'), trial_job) == 1
  if was_scheduled then jobs.make_instant(call, 'main', trial_job) end
end

return subscribers
