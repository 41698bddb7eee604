#!lua flags=allow-oom
--[[
bury: make a batch that must not be tried again a dead letter, and delete its job.

If the worker does not hold the job under that lease, nothing changes and `held` is false. If the
subscriber has left, the batch is deleted. The lane of the subscriber brings back a waiting job. `buried`
is the number of events in the dead letter; 0 if there is no dead letter.
]]
local batches = include('batches')
local dead_letters = include('dead_letters')
local lanes = include('lanes')
local leases = include('leases')
local subscribers = include('subscribers')
local waiting = include('waiting')

return function(call, args)
  local keys, bid = call.keys, args.bid
  if not leases.settle(call, args.q, args.worker, args.job, args.lease, args.lease_ms) then
    return { held = false, buried = 0 }
  end
  redis.call('SREM', keys.jobs_index(args.q), args.job)
  local lane, buried = lanes.leave(call, args.worker), 0
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  if token and redis.call('EXISTS', keys.subscriber(token)) == 1 then
    subscribers.fail(call, token, args)
    buried = dead_letters.bury(call, bid, args.reason)
  elseif token then
    batches.delete(call, bid)
  end
  if lane then waiting.bring_back(call, lane, 1) end
  return { held = true, buried = buried }
end
