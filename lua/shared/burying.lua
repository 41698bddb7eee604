--[[
Burying: ends the delivery of a batch that must not be tried again.
]]
local batches = include('batches')
local dead_letters = include('dead_letters')
local lanes = include('lanes')
local subscribers = include('subscribers')
local waiting = include('waiting')
local burying = {}

-- Ends a delivery for good: deletes the job that a worker held, and makes its batch a dead letter. The caller has
-- already taken the job from the worker. If the subscriber has left, the batch is deleted instead. A waiting job of the
-- subscriber becomes instant. `failure` has the batch (`bid`), the `reason`, the attempt as JSON (nil if the history
-- has it already), and what the failure costs the subscriber: `damage` (health points) and `throttle_ms`. Returns the
-- number of events in the dead letter (0 if there is none), and the token of the subscriber if the batch existed.
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
