#!lua flags=allow-oom
--[[
drop_logs: free memory by deleting the longest delivery logs, at most `max_logs`. Returns how many logs are left. The
trails (the lists that tell which logs were written when) are deleted too, because listings work without them.
]]
local delivery_log = include('records/delivery_log')

return function(call, args)
  for _, ending in ipairs(delivery_log.ENDINGS) do redis.call('UNLINK', call.keys.deliveries_trail(ending)) end
  for _, name in ipairs(redis.call('ZRANGE', call.keys.deliveries_logs(), 0, args.max_logs - 1, 'REV')) do
    delivery_log.remove(call, delivery_log.read_name(name))
  end
  return redis.call('ZCARD', call.keys.deliveries_logs())
end
