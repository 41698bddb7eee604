#!lua flags=allow-oom
--[[
bury: make a dead letter of a batch that is not to be tried any more, and forget its job.

Nothing happens if the worker does not hold the job under that lease (`held` is false). The lane of the
subscriber continues with its waiting jobs. The batch of a subscriber that has left is deleted. `buried`: how
many events the dead letter holds; 0: there is none.
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
