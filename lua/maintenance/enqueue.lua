#!lua flags=allow-oom
--[[
enqueue: put an instant job in a queue. Returns true if this call made the job instant.

If the queue already has the job in any state, nothing changes and the reply is false. There is one exception: if a dead
worker holds the job, the job is taken from it and becomes instant. Otherwise a periodic job whose worker died could not
run again before a scrub. The scrub is a periodic job too, and could never run again if its own worker died.
]]
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')

local function take_from_dead_worker(call, q, job, lease_ms)
  local keys = call.keys
  for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
    local is_dead = leases.is_worker_dead(call, worker, lease_ms)
    if is_dead and redis.call('LREM', keys.jobs_pending(q, worker), 1, job) == 1 then
      redis.call('HDEL', keys.leases(), worker)
      return true
    end
  end
  return false
end

return function(call, args)
  local q, job = args.q, args.job
  if jobs.put(call, q, job) then return true end
  local was_held = take_from_dead_worker(call, q, job, args.lease_ms)
  if was_held then jobs.make_instant_again(call, q, job) end
  return was_held
end
