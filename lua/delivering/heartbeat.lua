#!lua flags=allow-oom
--[[
heartbeat: renew the leases of workers. Returns the workers that have lost their lease. A lease is lost if it has
expired, was deleted, or was replaced by one with another number. A lost lease is not renewed.
]]
local leases = include('delivering/leases')

return function(call, args)
  local keys, lost = call.keys, {}
  for _, each in ipairs(args.leases) do
    local worker = each.worker
    local is_replaced = redis.call('HGET', keys.leases(), worker) ~= each.lease
    if is_replaced or leases.is_worker_dead(call, worker, args.lease_ms) then
      lost[#lost + 1] = worker
    else
      redis.call('HSET', keys.workers(), worker, call.now_ms)
    end
  end
  return lost
end
