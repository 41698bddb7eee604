#!lua flags=allow-oom
--[[
retire: forget workers that stop. Returns the number of workers forgotten. A worker that still holds a job is not
forgotten; the scrub returns its job to the queue.

These workers may have been woken for jobs that they no longer take, so this script announces jobs that are ready.
]]
local choosing = include('delivering/choosing')
local leases = include('delivering/leases')

return function(call, args)
  local keys, q, forgotten = call.keys, args.q, 0
  for _, worker in ipairs(args.workers) do
    if redis.call('LLEN', keys.jobs_pending(q, worker)) == 0 then
      redis.call('SREM', keys.jobs_pending_index(q), worker)
      forgotten = forgotten + leases.forget_worker(call, worker)
    end
  end
  if choosing.count_ready(call, q) > 0 then call.wakes[q] = true end
  return forgotten
end
