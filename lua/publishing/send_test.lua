#!lua
--[[
send_test: queue a batch with one test event for one subscriber, behind its other batches. The batch gets no further
events, and can be delivered at once. Returns the UID of the batch as `bid`. If there is no such subscriber, the
reply has no `bid`.
]]
local batches = include('delivering/batches')
local jobs = include('delivering/jobs')
local uids = include('store/uids')

return function(call, args)
  local keys, token = call.keys, args.token
  local callback, ordered = unpack(redis.call('HMGET', keys.subscriber(token), 'callback', 'ordered'))
  if not callback then return {} end
  local bid = uids.next(uids.begin(args.uid_seed))
  redis.call('RPUSH', keys.batch(bid), token, call.now_ms, '0', args.event)
  batches.enlist(call, bid, token, ordered, 1)
  jobs.put(call, 'main', jobs.delivery_of(bid))
  return { bid = bid }
end
