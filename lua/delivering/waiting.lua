--[[
Waiting jobs: jobs whose subscriber may not have another delivery in flight now. Workers do not take jobs from here.
]]
local jobs = include('delivering/jobs')
local waiting = {}

-- Adds a job to the waiting jobs of a subscriber, a sorted set by the times (µs) at which they were added. If one
-- script call adds several jobs, their times are 1 µs apart, to keep their order. Adding a job takes longer than 1 µs,
-- so the jobs of later calls get later times.
function waiting.add(call, token, job)
  call.waiting_added = (call.waiting_added or 0) + 1
  redis.call('ZADD', call.keys.jobs_waiting(token), call.now_us + call.waiting_added, job)
end

-- Takes a job out of the scheduled jobs or the subscriber's waiting jobs, which no worker may take yet. The caller puts
-- the job elsewhere, or deletes it. Returns false if the job is neither scheduled nor waiting.
function waiting.take(call, token, job)
  if redis.call('ZREM', call.keys.jobs_scheduled('main'), job) == 1 then return true end
  return redis.call('ZREM', call.keys.jobs_waiting(token), job) == 1
end

-- After a failure, no delivery to a subscriber begins before `throttled_until` (a field of its hash). Ends this wait
-- now. The subscriber still counts as failing.
function waiting.end_hold(call, token, throttled_until)
  if throttled_until and tonumber(throttled_until) > call.now_ms then
    redis.call('HSET', call.keys.subscriber(token), 'throttled_until', call.now_ms)
  end
end

-- Returns the job of the subscriber's oldest batch, or nothing if the subscriber has no batch. If the subscriber is
-- `ordered`, only this job may run.
function waiting.oldest_job(call, token)
  local bid = redis.call('ZRANGE', call.keys.batches_queued(token), 0, 0)[1]
  return bid and jobs.delivery_of(bid)
end

-- Makes up to `max` waiting jobs of a subscriber instant (any worker may take them), the longest waiting first. They go
-- behind all other instant jobs, so that subscribers take turns. For an `ordered` subscriber, makes only the job of its
-- oldest batch instant, whatever `max` is. Does nothing if the subscriber is paused, or has a probe, which must run
-- first. Returns true if a job became instant.
function waiting.make_instant(call, token, max)
  local keys = call.keys
  local probe, paused_at, ordered = unpack(redis.call('HMGET', keys.subscriber(token), 'probe', 'paused_at', 'ordered'))
  if probe or paused_at then return end
  if ordered == '1' then
    local job = waiting.oldest_job(call, token)
    if not job or redis.call('ZREM', keys.jobs_waiting(token), job) == 0 then return end
    jobs.make_instant(call, 'main', job)
    return true
  end
  if max == 0 then return end
  local popped, back = redis.call('ZPOPMIN', keys.jobs_waiting(token), max), {}
  for i = 1, #popped, 2 do back[#back + 1] = popped[i] end
  if #back == 0 then return end
  jobs.make_instant(call, 'main', unpack(back))
  return true
end

return waiting
