--[[
Waiting jobs: jobs outside the queue that may not enter their lane yet.
]]
local jobs = include('jobs')
local waiting = {}

-- Adds a job to the waiting jobs of a subscriber, a set sorted by the time (µs) at which they were added. Dropping
-- a job from a list would be slow: the oldest batches are dropped first, but their retried jobs are near the end.
-- Jobs that one call adds get times 1 µs apart. Adding one takes longer, so jobs of later calls sort behind them.
function waiting.add(call, token, job)
  call.waiting_added = (call.waiting_added or 0) + 1
  redis.call('ZADD', call.keys.jobs_waiting(token), call.now_us + call.waiting_added, job)
end

-- Returns the job of the subscriber's oldest batch, or nothing if there is no batch. In an ordered lane only
-- that job may run.
function waiting.oldest_job(call, token)
  local bid = redis.call('ZRANGE', call.keys.batches_queued(token), 0, 0)[1]
  return bid and jobs.delivery_of(bid)
end

-- Brings back up to `max` waiting jobs, those that have waited longest first. They go behind the other
-- instant jobs, so that lanes take turns. An ordered lane brings back only the job of its oldest batch, even
-- if `max` is 0. While a trial job exists or the subscriber is paused, nothing comes back; the end of the
-- trial job brings the others back.
function waiting.bring_back(call, token, max)
  local keys = call.keys
  local trial_job, paused_at, ordered =
    unpack(redis.call('HMGET', keys.subscriber(token), 'probe', 'paused_at', 'ordered'))
  if trial_job or paused_at then return end
  if ordered == '1' then
    local job = waiting.oldest_job(call, token)
    if job and redis.call('ZREM', keys.jobs_waiting(token), job) == 1 then jobs.make_instant(call, 'main', job) end
    return
  end
  if max == 0 then return end
  local popped, back = redis.call('ZPOPMIN', keys.jobs_waiting(token), max), {}
  for i = 1, #popped, 2 do back[#back + 1] = popped[i] end
  if #back > 0 then jobs.make_instant(call, 'main', unpack(back)) end
end

return waiting
