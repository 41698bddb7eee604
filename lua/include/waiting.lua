-- Waiting aside: jobs for which the lane of their subscriber had no room. There is always one outside that brings them
-- back: a delivery in flight, one that is to be tried again, or the probe of a lane that fails. Only where the subscriber is
-- paused all wait, until it subscribes again.

-- Sorted by when they were put aside, and not lists, as any of them can be dropped: the batches that were tried most are the
-- oldest, and their jobs came last. Each takes more than a µs, so those of the next call come behind them.
local put_aside = 0
local function wait_aside(token, job)
  put_aside = put_aside + 1
  redis.call('ZADD', key.jobs_waiting(token), now * 1000 + time[2] % 1000 + put_aside, job)
end

-- In an ordered lane only the job of the oldest batch may run.
local function oldest_job(token)
  local bid = redis.call('ZRANGE', key.batches_queued(token), 0, 0)[1]
  return bid and batch_job(bid)
end

-- Brings jobs back, the longest waiting first, behind what the queue has: lanes take turns. While a probe is awaited it
-- is the probe that brings them back.
local function bring_back(token, most)
  local probe, paused_at, ordered = unpack(redis.call('HMGET', key.subscriber(token), 'probe', 'paused_at', 'ordered'))
  if probe or paused_at then return end
  if ordered == '1' then
    local job = oldest_job(token)
    if job and redis.call('ZREM', key.jobs_waiting(token), job) == 1 then make_instant('main', job) end
    return
  end
  if most == 0 then return end
  local popped, jobs = redis.call('ZPOPMIN', key.jobs_waiting(token), most), {}
  for i = 1, #popped, 2 do jobs[#jobs + 1] = popped[i] end
  if #jobs > 0 then make_instant('main', unpack(jobs)) end
end
