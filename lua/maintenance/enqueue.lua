#!lua flags=allow-oom
--[[
enqueue: put an instant job in a queue, unless the queue has it already in any state. Returns true if the call
made it instant.

A copy that is pending with a worker whose lease ran out is given back here. Otherwise a periodic job that
died while pending, such as the scrub itself, would keep its successors out.
]]
local jobs = include('jobs')
local leases = include('leases')

local function take_from_dead_worker(call, q, job, lease_ms)
  local keys = call.keys
  for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
    if leases.is_dead(call, worker, lease_ms) and redis.call('LREM', keys.jobs_pending(q, worker), 1, job) == 1 then
      redis.call('HDEL', keys.leases(), worker)
      return true
    end
  end
  return false
end

return function(call, args)
  local q, job = args.q, args.job
  if redis.call('SADD', call.keys.jobs_index(q), job) == 1 then
    jobs.make_instant(call, q, job)
  elseif take_from_dead_worker(call, q, job, args.lease_ms) then
    jobs.make_instant_again(call, q, job)
  else
    return false
  end
  return true
end
