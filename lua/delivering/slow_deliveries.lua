--[[
Slow deliveries: deliveries in flight for longer than `slow_ms`. Long before the first delivery to a subscriber times
out, they show that the subscriber hangs.

The number of a lease is the time (µs) at which it was given (leases.lua), so leases tell how old deliveries are.
]]
local leases = include('delivering/leases')
local shares = include('delivering/shares')
local slow_deliveries = {}

-- Time (µs) between two searches for slow deliveries. A search reads all leases, which takes Redis 20 µs for 64
-- deliveries in flight.
local LOOK_EVERY_US = 250000

-- Returns the workers whose delivery is slow, each with the token of the subscriber. Workers with other jobs are left
-- out.
local function find(call, slow_ms)
  local numbers, now, found = redis.call('HGETALL', call.keys.leases()), leases.now(call), {}
  for i = 1, #numbers, 2 do
    if now - (tonumber(numbers[i + 1]) or now) > slow_ms * 1000 then
      found[numbers[i]] = redis.call('HGET', call.keys.lanes_held(), numbers[i]) or nil
    end
  end
  return found
end

-- Marks the subscribers of slow deliveries as slow. The workers of these deliveries enter the share `slow`, unless they
-- are in another share already, so that slow subscribers together cannot use too many workers.
function slow_deliveries.notice(call, slow_ms)
  -- One search in each interval of LOOK_EVERY_US is enough. The number of a lease is the time (µs) at which it was
  -- given, and every call that gives leases searches first. So if the newest lease is from this interval, a search was
  -- made in this interval.
  if math.floor(leases.last(call) / LOOK_EVERY_US) >= math.floor(leases.now(call) / LOOK_EVERY_US) then return end
  for worker, token in pairs(find(call, slow_ms)) do
    shares.enter_slow(call, worker)
    local subscriber = call.keys.subscriber(token)
    if redis.call('EXISTS', subscriber) == 1 then redis.call('HSETNX', subscriber, 'slow', 1) end
  end
end

-- Returns true if a delivery to the subscriber `token` is slow.
function slow_deliveries.has_any(call, token, slow_ms)
  for _, slow_token in pairs(find(call, slow_ms)) do
    if slow_token == token then return true end
  end
  return false
end

return slow_deliveries
