--[[
Burying: ends the delivery of a batch that must not be tried again.
]]
local batches = include('delivering/batches')
local dead_letters = include('delivering/dead_letters/dead_letters')
local lanes = include('delivering/lanes')
local subscribers = include('delivering/subscribers')
local waiting = include('delivering/waiting')
local burying = {}

-- Ends a delivery for good. Its batch becomes a dead letter or, if the subscriber has left, is deleted. Its job, which
-- the caller has already taken from the worker, is deleted. One waiting job of the subscriber becomes instant, because
-- the subscriber has one delivery fewer in flight now.
--
-- Fields of `failure`:
--   q, worker, job  the job, and the worker that held it
--   bid             the batch
--   reason          why the batch becomes a dead letter
--   attempt         the failed attempt as JSON; nil if the history of the batch has it already
--   damage          health points that the subscriber loses
--   throttle_ms     time without deliveries to the subscriber
--   callback        where the batch was sent; nil if it was not sent
--
-- Returns the number of events in the dead letter (0 if there is none), the number of events in the deleted batch (0 if
-- none was deleted), and the subscriber's token (false if the batch is gone).
function burying.end_delivery(call, failure)
  local keys, bid = call.keys, failure.bid
  redis.call('SREM', keys.jobs_index(failure.q), failure.job)
  local lane_token, buried, dropped = lanes.leave(call, failure.worker), 0, 0
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  if token and redis.call('EXISTS', keys.subscriber(token)) == 1 then
    subscribers.fail(call, token, failure)
    buried = dead_letters.bury(call, bid, failure.reason)
  elseif token then
    dropped = batches.delete(call, bid)
  end
  if lane_token then waiting.make_instant(call, lane_token, 1) end
  return buried, dropped, token
end

return burying
