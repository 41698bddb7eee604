--[[
Waiting aside: jobs for which the lane of their subscriber had no room.

One job of the lane is always elsewhere and brings them back: a delivery in flight, one that is to be tried
again, or the probe of a lane that fails. Only where the subscriber is paused all of them wait, until it
subscribes again.
]]
local jobs = include('jobs')
local waiting = {}

-- Sorted by when they were put aside. No list, as any of them can be dropped: the batches that were tried
-- most are the oldest, and their jobs came last. A script takes more than a µs for each, so jobs of the next
-- call come behind them.
function waiting.put_aside(call, token, job)
  call.put_aside = (call.put_aside or 0) + 1
  redis.call('ZADD', call.keys.jobs_waiting(token), call.now_us + call.put_aside, job)
end

-- In an ordered lane only the job of the oldest batch may run.
function waiting.oldest_job(call, token)
  local bid = redis.call('ZRANGE', call.keys.batches_queued(token), 0, 0)[1]
  return bid and jobs.delivery_of(bid)
end

-- Brings up to `max` jobs back, the longest waiting first, behind what the queue has: lanes take turns. An
-- ordered lane brings back its oldest job, whatever `max` is. While a probe is awaited nothing comes back:
-- the probe will see to it.
function waiting.bring_back(call, token, max)
  local keys = call.keys
  local probe, paused_at, ordered =
    unpack(redis.call('HMGET', keys.subscriber(token), 'probe', 'paused_at', 'ordered'))
  if probe or paused_at then return end
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
