#!lua flags=allow-oom
--[[
enqueue: put an instant job in a queue. Returns true if this call made the job instant. The job must not be a delivery,
because a delivery may be in lists that this script does not search.

If the queue already has the job in any state, nothing changes and the reply is false. There are two exceptions, in
which the job becomes instant:

- A dead worker holds the job. Otherwise a periodic job whose worker died could not run again before a scrub, and the
  scrub is a periodic job too.
- The job is in the index of jobs, but in no list, because a script was stopped half-way. Otherwise only a sweep would
  find the job, and the sweep is a periodic job too.
]]
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')

-- Returns true if no worker will run the job. Takes the job away from its worker if this worker is dead.
local function is_lost(call, q, job, lease_ms)
  local keys = call.keys
  if redis.call('LPOS', keys.jobs_instant(q), job) then return false end
  if redis.call('ZSCORE', keys.jobs_scheduled(q), job) then return false end
  for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
    if redis.call('LPOS', keys.jobs_pending(q, worker), job) then
      if not leases.is_worker_dead(call, worker, lease_ms) then return false end
      redis.call('LREM', keys.jobs_pending(q, worker), 1, job)
      redis.call('HDEL', keys.leases(), worker)
    end
  end
  return true
end

return function(call, args)
  local q, job = args.q, args.job
  if jobs.put(call, q, job) then return true end
  if not is_lost(call, q, job, args.lease_ms) then return false end
  jobs.make_instant_again(call, q, job)
  return true
end
