-- The lane goes on with what waited aside, as far as it has room; with one at least, as a job has left that may have been
-- the one to bring the others back.
local function advance_lane(token, limit)
  local in_flight = tonumber(redis.call('HGET', key.lanes_in_flight(), token)) or 0
  local failing = redis.call('HEXISTS', key.subscriber(token), 'throttled_until') == 1
  bring_back(token, failing and 1 or math.max(1, limit - in_flight))
end
