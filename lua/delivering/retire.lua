#!lua flags=allow-oom
--[[
retire: forget workers that end. Returns how many were forgotten. A worker that still holds a job is left to
the scrub.

Jobs that their last acks brought back are announced here, as ack does not announce them.
]]
local lanes = include('lanes')

return function(call, args)
  local keys, q, forgotten = call.keys, args.q, 0
  for _, worker in ipairs(args.workers) do
    if redis.call('LLEN', keys.jobs_pending(q, worker)) == 0 then
      redis.call('SREM', keys.jobs_pending_index(q), worker)
      forgotten = forgotten + redis.call('HDEL', keys.workers(), worker)
      redis.call('SREM', keys.workers_main(), worker)
    end
  end
  if lanes.count_ready(call, q) > 0 then call.wakes[q] = true end
  return forgotten
end
