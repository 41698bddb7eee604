-- Lanes: what one subscriber may hold of the workers. A lane lets `limit` deliveries be in flight; while its subscriber
-- fails (throttled_until), one at a time, and none before that time.

-- The lane that the worker's job was in, which it leaves.
local function leave_lane(worker)
  local token = redis.call('HGET', key.lanes_held(), worker)
  if not token then return end
  redis.call('HDEL', key.lanes_held(), worker)
  if redis.call('HINCRBY', key.lanes_in_flight(), token, -1) <= 0 then
    redis.call('HDEL', key.lanes_in_flight(), token)
  end
  return token
end
