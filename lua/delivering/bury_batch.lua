#!lua flags=allow-oom
--[[
bury_batch: make a waiting batch a dead letter, because somebody asks for it. If `tokens` is not empty, finds only
batches of these subscribers. The subscriber's later batches go on. Those of an ordered subscriber may have waited for
this batch, and no longer do. If the subscriber is held back after a failure, its next batch is tried at once, unless
another batch is the probe already (lane_entry.lua). The health of the subscriber does not change.

If the outcome is not `ok`, nothing has changed. `delivery_not_found` also stands for a batch whose subscriber has left:
a worker deletes it soon. `delivery_not_waiting` means that a worker holds the job of the batch, or that the job is in a
list from which workers take jobs (retry_batch.lua).
]]
local batches = include('delivering/batches')
local dead_letters = include('delivering/dead_letters/dead_letters')
local jobs = include('delivering/jobs')
local waiting = include('delivering/waiting')

-- Has the next batch of the subscriber tried now that `job` is gone.
local function try_next(call, token, job)
  local subscriber = call.keys.subscriber(token)
  local throttled_until, probe = unpack(redis.call('HMGET', subscriber, 'throttled_until', 'probe'))
  if probe and probe ~= job then return end
  if probe then redis.call('HDEL', subscriber, 'probe') end
  waiting.end_hold(call, token, throttled_until)
  waiting.make_instant(call, token, 1)
end

return function(call, args)
  local keys, bid = call.keys, args.bid
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  local exists = token and redis.call('EXISTS', keys.subscriber(token)) == 1
  if not exists or not batches.is_of(args.tokens, token) then return { outcome = 'delivery_not_found', events = 0 } end
  local job = jobs.delivery_of(bid)
  if not waiting.take(call, token, job) then return { outcome = 'delivery_not_waiting', events = 0 } end
  redis.call('SREM', keys.jobs_index('main'), job)
  local events = dead_letters.bury(call, bid, 'buried')
  try_next(call, token, job)
  return { outcome = 'ok', token = token, events = events }
end
