#!lua flags=allow-oom
--[[
nack: take a job back that its worker could not finish, to be run again later, or at once.

Only under the lease by which the worker holds the job. A failed delivery damages and throttles its subscriber. One whose
callback is gone is paused: its jobs wait aside until it subscribes again.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  leases                     hash
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:waiting:{token}       zset
  lanes:in_flight            hash
  lanes:held                 hash
  shares:jobs:{share}        list
  shares:workers:{share}     set
  batch:{bid}                list
  batches:index:{token}      zset
  attempts:{bid}             list
  subscriber:{token}         hash    health_points, throttled_until, paused_at; reads callback, subscribed_at, probe, ordered
ARGV
  q                          the queue
  worker                     the worker that holds the job
  job                        the packed job
  lease                      the number of its lease
  lease_ms                   how long a worker holds a job without being heard of
  delay_ms                   when to run the job again; 0: at once
  bid                        the batch that it was to deliver, or empty
  damage                     the health points that the failure costs
  throttle_ms                how long no delivery to the subscriber is tried
  attempt                    what came of the attempt, as JSON, or empty
  gone                       if the callback is gone: when that subscription was made (subscribed_at; 0: not known); or empty
RETURNS
  1, or 0 if the worker does not hold the job: nothing has changed
]]
-- include: now
-- include: jobs
-- include: leases
-- include: waiting
-- include: lanes
-- include: health
-- include: failures

local q, worker, job, lease, lease_ms, delay_ms = unpack(ARGV, 1, 6)
local bid, damage, throttle_ms, attempt, gone = unpack(ARGV, 7, 11)

if not take_from(q, worker, job, lease, leases_of({ worker }, tonumber(lease_ms))) then return 0 end
redis.call('HDEL', key.leases(), worker)

local lane = leave_lane(worker)
local token = bid ~= '' and redis.call('LINDEX', key.batch(bid), 0)
-- An answer from before the subscriber subscribed again, even with the same callback, is no more than a failure.
local function is_gone()
  local callback, subscribed_at = unpack(redis.call('HMGET', key.subscriber(token), 'callback', 'subscribed_at'))
  return callback and (subscribed_at or '0') == gone
end
local pause = token and gone ~= '' and is_gone()
if token then
  -- It does not count that one was given back before its end, or that nobody was there.
  local uncounted = pause or attempt == '' and tonumber(delay_ms) == 0
  if uncounted then redis.call('LSET', key.batch(bid), 2, redis.call('LINDEX', key.batch(bid), 2) - 1) end
  note_attempt(bid, attempt)
  fail_subscriber(token, tonumber(damage), tonumber(throttle_ms))
end

if bid ~= '' and not token then
  -- The batch was dropped while it was being delivered: there is nothing left to try again.
  redis.call('SREM', key.jobs_index(q), job)
elseif pause then
  redis.call('HSETNX', key.subscriber(token), 'paused_at', now)
  -- Before all others.
  redis.call('ZADD', key.jobs_waiting(token), 0, job)
elseif tonumber(delay_ms) > 0 then
  make_scheduled(q, job, now + delay_ms)
else
  make_instant_again(q, job)
end
if lane then bring_back(lane, 1) end
announce()
return 1
