--[[
Late deliveries: those in flight for longer than `slow_ms`, the time after which an accepted delivery counts as
slow. They show a hanging subscriber long before its first delivery times out.

The number of a lease is the time (µs) at which it was given, so leases tell how old deliveries are.
]]
local lanes = include('lanes')
local leases = include('leases')
local late = {}

-- Time (µs) within which only the first acquire that assigns a job looks for late deliveries. It reads all leases,
-- which takes Redis 20 µs for 64 deliveries in flight.
local LOOK_EVERY_US = 250000

-- Returns the lane (the subscriber's token) of each worker whose delivery is late, as a table by worker.
local function late_lanes(call, slow_ms)
  local numbers, found = redis.call('HGETALL', call.keys.leases()), {}
  for i = 1, #numbers, 2 do
    if call.now_us - numbers[i + 1] > slow_ms * 1000 then
      found[numbers[i]] = redis.call('HGET', call.keys.lanes_held(), numbers[i]) or nil
    end
  end
  return found
end

-- Adds late deliveries to the share of slow subscribers, unless they are in a share, and makes their
-- subscribers slow. Does nothing if a lease was given in the present quarter of a second, because the call that
-- gave it has looked.
function late.notice(call, slow_ms)
  if math.floor(leases.last(call) / LOOK_EVERY_US) >= math.floor(call.now_us / LOOK_EVERY_US) then return end
  for worker, token in pairs(late_lanes(call, slow_ms)) do
    lanes.enter_slow_share(call, worker)
    local subscriber = call.keys.subscriber(token)
    if redis.call('EXISTS', subscriber) == 1 then redis.call('HSETNX', subscriber, 'slow', 1) end
  end
end

-- Returns true if a delivery of the subscriber `token` is late.
function late.has_any(call, token, slow_ms)
  for _, lane in pairs(late_lanes(call, slow_ms)) do
    if lane == token then return true end
  end
  return false
end

return late
