#!lua flags=allow-oom
--[[
nack: put a job that its worker could not finish back into its queue, to run again after `delay_ms`. If the batch of the
job was dropped, the job is deleted instead. If the worker does not hold the job under that lease, `held` is false and
nothing changes.

The attempt does not count if `is_uncounted`, or if the callback is gone. A failed delivery costs its subscriber
`damage` health points, and no delivery to it begins for `throttle_ms`. `gone` is given only if the callback answered
410 (Gone). It is the subscriber's `subscribed_at` at the start of the delivery, or 0 if that is unknown. If the
subscriber has not subscribed again since, it is paused: its jobs wait until it subscribes again, or is resumed.
`paused` is true if this failure has paused the subscriber, and the subscriber was not paused before. It is also true if
an earlier call, whose reply was lost, stored the failure and paused the subscriber. Unless the subscriber is paused,
one of its waiting jobs becomes instant.

`callback` is where the batch was sent. If the subscriber has another callback by now, its deliveries do not wait, and
this job runs again at once: a `Retry-After` of the former callback could hold back the new one for a day. The job also
runs at once if the subscriber has left: the worker that gets it deletes the batch.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local lanes = include('delivering/lanes')
local leases = include('delivering/leases')
local pausing = include('subscribing/pausing')
local subscribers = include('delivering/subscribers')
local waiting = include('delivering/waiting')

-- Returns true if an answer 410 (Gone) means that the subscriber wants no more deliveries. `gone` is the
-- `subscribed_at` of the subscriber when the delivery began. If the subscriber has another `subscribed_at` now, it has
-- subscribed again, perhaps with another callback, so the 410 is an ordinary failure.
local function is_gone(call, token, gone)
  local subscriber = call.keys.subscriber(token)
  local callback, subscribed_at = unpack(redis.call('HMGET', subscriber, 'callback', 'subscribed_at'))
  return callback and (subscribed_at or '0') == gone
end

-- Stores a failed attempt, and what follows for the subscriber, such as lost health points. The script `acquire` has
-- already counted the attempt. Subtracts it again if the failure pauses the subscriber (`pauses`), or if neither the
-- batch nor the subscriber is at fault (`is_uncounted`).
local function note_failure(call, token, args, pauses)
  local batch = call.keys.batch(args.bid)
  if pauses or args.is_uncounted then
    redis.call('LSET', batch, 2, redis.call('LINDEX', batch, 2) - 1)
  else
    batches.note_retry(call, token, args.bid)
  end
  subscribers.fail(call, token, args)
end

-- Scores in the sorted set of a subscriber's waiting jobs. The job whose answer 410 (Gone) paused the subscriber gets
-- CAUSE_OF_PAUSE. Jobs that get a 410 during the pause get GONE_TOO. All other jobs have higher scores, so the jobs
-- that got a 410 are tried first when the pause ends.
local CAUSE_OF_PAUSE, GONE_TOO = 0, 1

-- Returns true if the subscriber is paused because this job failed.
local function has_paused(call, args)
  local token = args.gone and redis.call('LINDEX', call.keys.batch(args.bid), 0)
  local score = token and redis.call('ZSCORE', call.keys.jobs_waiting(token), args.job)
  return tonumber(score) == CAUSE_OF_PAUSE
end

-- Puts a failed job back into its queue, or deletes the job if its batch was dropped. Returns true if the failure
-- paused the subscriber.
local function put_back(call, token, args, pauses)
  local q, job = args.q, args.job
  if args.bid and not token then
    -- The batch was dropped during its delivery, so the job is deleted.
    redis.call('SREM', call.keys.jobs_index(q), job)
  elseif pauses then
    local paused = pausing.pause(call, token, 'callback_gone')
    redis.call('ZADD', call.keys.jobs_waiting(token), paused and CAUSE_OF_PAUSE or GONE_TOO, job)
    return paused
  elseif args.delay_ms > 0 and not (token and subscribers.has_moved(call, token, args.callback)) then
    jobs.make_scheduled(call, q, job, call.now_ms + args.delay_ms)
  else
    jobs.make_instant_again(call, q, job)
  end
end

return function(call, args)
  if not leases.take_job_and_lease(call, args) then
    return { held = false, paused = calls.skip_wrong_type(has_paused, call, args) }
  end
  local lane_token = lanes.leave(call, args.worker)
  local token = args.bid and redis.call('LINDEX', call.keys.batch(args.bid), 0)
  local pauses = token and args.gone and is_gone(call, token, args.gone)
  if token then note_failure(call, token, args, pauses) end
  local paused = put_back(call, token, args, pauses)
  if lane_token then waiting.make_instant(call, lane_token, 1) end
  return { held = true, paused = paused }
end
