#!lua flags=allow-oom
--[[
upgrade: store a newer version of the data layout, unless workers of the former release are alive. Returns how
many are; 0: the layout is the newer one.

An old worker cannot read events of the newer layout, and would make dead letters of them. A process that
finds a layout newer than its release does not start, so no old worker comes after this. It is not an error if
another process was faster.
]]
local leases = include('leases')

return function(call, args)
  local keys, alive = call.keys, 0
  if redis.call('GET', keys.schema()) ~= args.from then return 0 end
  for _, heard_ms in ipairs(redis.call('HVALS', keys.workers())) do
    if not leases.ran_out(call, heard_ms, args.lease_ms) then alive = alive + 1 end
  end
  if alive == 0 then redis.call('SET', keys.schema(), args.to) end
  return alive
end
