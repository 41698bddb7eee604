#!lua flags=allow-oom
--[[
run_job: make a scheduled job instant, behind the other instant jobs. Returns `job_not_found` if the queue does not
have the job, and `job_not_scheduled` if the job is in another state; nothing changes then.

If the job is a delivery, and its subscriber has as many deliveries in flight as it may, the job must still wait when a
worker tries to take it.
]]
local jobs = include('delivering/jobs')

return function(call, args)
  local keys, q, job = call.keys, args.q, args.job
  if redis.call('SISMEMBER', keys.jobs_index(q), job) == 0 then return 'job_not_found' end
  if redis.call('ZREM', keys.jobs_scheduled(q), job) == 0 then return 'job_not_scheduled' end
  jobs.make_instant(call, q, job)
  return 'ok'
end
