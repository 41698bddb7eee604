#!lua flags=allow-oom
--[[
scrub: return the jobs of dead workers to their queues, and delete what is recorded of these workers.

A worker is dead if it has not given a sign of life for longer than `lease_ms`. The job of a dead worker becomes instant
and comes before the other instant jobs, and the history of the job's batch notes the death. `workers` is the number of
dead workers. `jobs` has the number of returned jobs for each queue.

If Redis was restarted, or another one has taken over, also closes all open batches. The next publish would do this too,
but perhaps too late: without a publish, a former master that became the master again would not notice that another
Redis was the master meanwhile. For the same reason, if there are other partitions, the script then makes the numbers of
outbox entries jump by a minute (outbox_numbers.lua).
]]
local attempts = include('delivering/attempts')
local batches = include('delivering/batches')
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local lanes = include('delivering/lanes')
local leases = include('delivering/leases')
local open_batches = include('delivering/open_batches')
local outbox_numbers = include('publishing/outbox_numbers')
local waiting = include('delivering/waiting')

local function dead_workers(call, lease_ms)
  local heard, dead = redis.call('HGETALL', call.keys.workers()), {}
  for i = 1, #heard, 2 do
    if leases.has_expired(call, heard[i + 1], lease_ms) then dead[#dead + 1] = heard[i] end
  end
  return dead
end

-- Gives the jobs of a dead worker back to the queue. If the worker delivered to a subscriber, also frees its place in
-- the subscriber's lane. Returns how many jobs the worker had.
local function give_back(call, q, worker)
  local keys, given_back = call.keys, 0
  local lane_token = q == 'main' and lanes.leave(call, worker)
  local job = redis.call('RPOP', keys.jobs_pending(q, worker))
  while job do
    local bid = q == 'main' and jobs.batch_of(job)
    local token = bid and batches.read_header(keys.batch(bid))
    if token then
      attempts.note_death(call, bid, worker)
      batches.note_retry(call, token, bid)
    end
    jobs.make_instant_again(call, q, job)
    given_back = given_back + 1
    job = redis.call('RPOP', keys.jobs_pending(q, worker))
  end
  -- The dead worker's job is instant again, so no waiting job becomes instant in its place: the maximum is 0. An
  -- `ordered` subscriber is an exception: if the job of its oldest batch waits, it becomes instant, because only this
  -- job may run.
  if lane_token then waiting.make_instant(call, lane_token, 0) end
  redis.call('SREM', keys.jobs_pending_index(q), worker)
  redis.call('HDEL', keys.leases(), worker)
  return given_back
end

return function(call, args)
  local keys, given_back = call.keys, {}
  calls.throw_later(call, open_batches.close_all_after_restart)
  if args.has_others then calls.throw_later(call, outbox_numbers.notice_other_redis) end
  for _, q in ipairs({ 'main', 'aux' }) do
    given_back[q] = 0
    for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
      if leases.is_worker_dead(call, worker, args.lease_ms) then
        given_back[q] = given_back[q] + (calls.throw_later(call, give_back, q, worker) or 0)
      end
    end
  end
  local dead = dead_workers(call, args.lease_ms)
  for _, worker in ipairs(dead) do leases.forget_worker(call, worker) end
  return { workers = #dead, jobs = given_back }
end
