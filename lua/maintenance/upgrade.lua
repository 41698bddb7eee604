#!lua flags=allow-oom
--[[
upgrade: replace the layout version `from` by `to`, unless workers are alive. Returns the number of live
workers; 0 means that the layout no longer has version `from`.

Processes of the former release do not start on a newer layout, so none of their workers can appear later. It is not an
error if another process has upgraded the layout already.
]]
local leases = include('delivering/leases')

return function(call, args)
  local keys, alive = call.keys, 0
  if redis.call('GET', keys.schema()) ~= args.from then return 0 end
  for _, heard_ms in ipairs(redis.call('HVALS', keys.workers())) do
    if not leases.has_expired(call, heard_ms, args.lease_ms) then alive = alive + 1 end
  end
  if alive == 0 then redis.call('SET', keys.schema(), args.to) end
  return alive
end
