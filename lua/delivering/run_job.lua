#!lua flags=allow-oom
--[[
run_job: make a scheduled job instant, behind the other instant jobs. Returns `job_not_found` if the queue does not
have the job, and `job_not_scheduled` if the job is in another state; nothing changes then.

If the lane of a delivery does not admit it yet, its job waits all the same when a worker reaches it.
]]
local jobs = include('jobs')

return function(call, args)
  local keys, q, job = call.keys, args.q, args.job
  if redis.call('SISMEMBER', keys.jobs_index(q), job) == 0 then return 'job_not_found' end
  if redis.call('ZREM', keys.jobs_scheduled(q), job) == 0 then return 'job_not_scheduled' end
  jobs.make_instant(call, q, job)
  return 'ok'
end
