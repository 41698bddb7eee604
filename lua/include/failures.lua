-- Failed deliveries: what they leave behind with the batch and its subscriber.

local MOST_ATTEMPTS_KEPT = 20

-- attempt: what came of it, as JSON; empty if nothing was tried.
local function note_attempt(bid, attempt)
  if attempt == '' then return end
  redis.call('RPUSH', key.attempts(bid), attempt)
  redis.call('LTRIM', key.attempts(bid), -MOST_ATTEMPTS_KEPT, -1)
end

local function fail_subscriber(token, damage, throttle_ms)
  local subscriber = key.subscriber(token)
  if redis.call('EXISTS', subscriber) == 0 then return end
  if damage > 0 then
    local health = redis.call('HGET', subscriber, 'health_points')
    redis.call('HSET', subscriber, 'health_points', health_after(health, -damage))
  end
  if throttle_ms > 0 then
    -- Another that failed at the same time may have been asked for more patience.
    local before = tonumber(redis.call('HGET', subscriber, 'throttled_until')) or 0
    redis.call('HSET', subscriber, 'throttled_until', math.max(before, now + throttle_ms))
  end
end
