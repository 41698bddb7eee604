--[[
Waiting jobs: jobs outside the queue because the lane of their subscriber was full.

One job of the lane is always elsewhere and brings them back: a delivery in flight, one that is to be tried
again, or the trial job of a lane that fails. If the subscriber is paused, all of its jobs wait until it
subscribes again.
]]
local jobs = include('jobs')
local waiting = {}

-- Waiting jobs are sorted by the time (µs) at which they came. They are not in a list, since any of them can
-- be dropped: the batches that were tried most are the oldest, and their jobs came last. Jobs of one call are
-- numbered by a µs each. The call takes longer than that, so jobs of the next call come behind them.
function waiting.add(call, token, job)
  call.waiting_added = (call.waiting_added or 0) + 1
  redis.call('ZADD', call.keys.jobs_waiting(token), call.now_us + call.waiting_added, job)
end

-- In an ordered lane only the job of the oldest batch may run.
function waiting.oldest_job(call, token)
  local bid = redis.call('ZRANGE', call.keys.batches_queued(token), 0, 0)[1]
  return bid and jobs.delivery_of(bid)
end

-- Brings up to `max` jobs back, the longest waiting first, behind what the queue has: lanes take turns. An
-- ordered lane brings back its oldest job, whatever `max` is. While the subscriber is
-- on trial nothing comes back: the end of its trial job brings the others back.
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
