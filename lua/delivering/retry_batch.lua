#!lua flags=allow-oom
--[[
retry_batch: try a batch at once although it waits for its deadline, for its next attempt, or until another delivery to
its subscriber ends. If `tokens` is not empty, finds only batches of these subscribers. If the subscriber is failing,
the job of this batch becomes its probe (lane_entry.lua).

If the outcome is not `ok`, nothing has changed. `delivery_paused` means that the subscriber is paused.
`delivery_not_waiting` means that a worker holds the job of the batch, or that the job is in a list from which workers
take jobs: the instant jobs, the jobs of batches that may have killed workers, or the jobs that wait for a share
(shares.lua). A job waits for a share, possibly for long, if all slow subscribers together, for example, use as many
workers as they may.

If the subscriber is ordered, its oldest batch is tried instead, because the subscriber must accept that batch first. If
the subscriber has as many deliveries in flight as it may, the batch must still wait.
]]
local batches = include('delivering/batches')
local jobs = include('delivering/jobs')
local waiting = include('delivering/waiting')

-- If the subscriber is failing, ends its wait (`throttled_until`), and makes `job` its probe, so that this job runs
-- next. If another job was the probe, and is scheduled for later, that job becomes a waiting job. If it is not
-- scheduled, a worker has it or can take it now: then it stays the probe, and `job` does not become the probe.
local function try_first(call, token, job)
  local keys, subscriber = call.keys, call.keys.subscriber(token)
  local throttled_until, probe = unpack(redis.call('HMGET', subscriber, 'throttled_until', 'probe'))
  if not throttled_until then return end
  waiting.end_hold(call, token, throttled_until)
  if probe and probe ~= job then
    if redis.call('ZREM', keys.jobs_scheduled('main'), probe) == 0 then return end
    waiting.add(call, token, probe)
  end
  redis.call('HSET', subscriber, 'probe', job)
end

return function(call, args)
  local keys, bid = call.keys, args.bid
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  if not token or not batches.is_of(args.tokens, token) then return 'delivery_not_found' end
  if redis.call('HEXISTS', keys.subscriber(token), 'paused_at') == 1 then return 'delivery_paused' end
  local ordered = redis.call('HGET', keys.subscriber(token), 'ordered') == '1'
  local job = ordered and waiting.oldest_job(call, token) or jobs.delivery_of(bid)
  if not waiting.take(call, token, job) then return 'delivery_not_waiting' end
  jobs.make_instant(call, 'main', job)
  try_first(call, token, job)
  return 'ok'
end
