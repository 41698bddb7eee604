#!lua flags=allow-oom
--[[
drop_logs: free memory by deleting the longest delivery logs, `max_logs` of them at most. Returns how many are left.
]]
local delivery_log = include('delivery_log')

return function(call, args)
  for _, name in ipairs(redis.call('ZRANGE', call.keys.deliveries_logs(), 0, args.max_logs - 1, 'REV')) do
    delivery_log.remove(call, delivery_log.read_name(name))
  end
  return redis.call('ZCARD', call.keys.deliveries_logs())
end
