#!lua flags=allow-oom
--[[
retry_batch: try a batch at once although it waits for its deadline, its next attempt or its lane. If `clients` is not
empty, finds only batches of these subscribers. If the batch's subscriber is held back after failures, the job of the
batch becomes the trial job.

If the outcome is not `ok`, nothing has changed. `delivery_paused` means that the subscriber is paused.
`delivery_not_waiting` means that a worker holds the job of the batch, or that the job is in a list from which workers
take jobs: the instant jobs, the jobs of suspects, or the jobs that wait for room in a share, possibly for long.

In an ordered lane the oldest batch is tried instead, because the subscriber must accept that batch first. If the lane
has no room, the batch must still wait.
]]
local batches = include('delivering/batches')
local jobs = include('delivering/jobs')
local waiting = include('delivering/waiting')

-- Lets a subscriber that is held back after failures be tried now, with `job` as its trial job. An earlier trial job
-- that is scheduled becomes a waiting job. An earlier trial job in any other state stays the trial job, instead of
-- `job`.
local function try_first(call, token, job)
  local keys, subscriber = call.keys, call.keys.subscriber(token)
  local throttled_until, trial_job = unpack(redis.call('HMGET', subscriber, 'throttled_until', 'probe'))
  if not throttled_until then return end
  if tonumber(throttled_until) > call.now_ms then redis.call('HSET', subscriber, 'throttled_until', call.now_ms) end
  if trial_job and trial_job ~= job then
    if redis.call('ZREM', keys.jobs_scheduled('main'), trial_job) == 0 then return end
    waiting.add(call, token, trial_job)
  end
  redis.call('HSET', subscriber, 'probe', job)
end

return function(call, args)
  local keys, bid = call.keys, args.bid
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  if not token or not batches.is_of(args.clients, token) then return 'delivery_not_found' end
  if redis.call('HEXISTS', keys.subscriber(token), 'paused_at') == 1 then return 'delivery_paused' end
  local ordered = redis.call('HGET', keys.subscriber(token), 'ordered') == '1'
  local job = ordered and waiting.oldest_job(call, token) or jobs.delivery_of(bid)
  local was_scheduled = redis.call('ZREM', keys.jobs_scheduled('main'), job) == 1
  local waited = was_scheduled or redis.call('ZREM', keys.jobs_waiting(token), job) == 1
  if not waited then return 'delivery_not_waiting' end
  jobs.make_instant(call, 'main', job)
  try_first(call, token, job)
  return 'ok'
end
