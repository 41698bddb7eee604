--[[
Burying: ends the delivery of a batch that must not be tried again.
]]
local batches = include('delivering/batches')
local dead_letters = include('delivering/dead_letters')
local lanes = include('delivering/lanes')
local subscribers = include('delivering/subscribers')
local waiting = include('delivering/waiting')
local burying = {}

-- Ends a delivery for good. The caller has already taken the job of the delivery from the worker.
--   - The job is deleted.
--   - The batch becomes a dead letter: it is kept, but not tried any more. If the subscriber has left, the batch is
--     deleted instead.
--   - Another job of the subscriber may start. A subscriber has a maximum of deliveries at a time, and its other jobs
--     wait. `bring_back` makes one of these jobs ready for a worker.
--
-- `failure` has the batch (`bid`), the `reason`, the `attempt` as JSON (nil if it is stored in `attempts:{bid}`
-- already), and the cost to the subscriber: `damage` (health points) and `throttle_ms`, the time without deliveries.
--
-- Returns two values: the number of events in the dead letter (0 if there is none), and the subscriber's token (false
-- if the batch no longer exists).
function burying.end_delivery(call, q, worker, job, failure)
  local keys, bid = call.keys, failure.bid
  redis.call('SREM', keys.jobs_index(q), job)
  local lane, buried = lanes.leave(call, worker), 0
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  if token and redis.call('EXISTS', keys.subscriber(token)) == 1 then
    subscribers.fail(call, token, failure)
    buried = dead_letters.bury(call, bid, failure.reason)
  elseif token then
    batches.delete(call, bid)
  end
  if lane then waiting.bring_back(call, lane, 1) end
  return buried, token
end

return burying
