#!lua flags=allow-oom
--[[
nack: take a job back from its worker, to be run again after a delay, or at once.

Only the worker that holds the job can. A failed delivery damages its subscriber's health and throttles it.

KEYS
  schema                     string  names the partition
TOUCHES
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:waiting:{token}       list
  lanes:in_flight            hash
  lanes:held                 hash
  batch:{bid}                list
  subscriber:{token}         hash    health_points, throttled_until, probe
ARGV
  q                          the queue
  worker                     the worker that holds the job
  job                        the packed job
  delay_ms                   when to run it again; 0: at once, before the others
  bid                        the batch that it failed to deliver, or empty
  damage                     the health points that the subscriber loses
  throttle_ms                how long no other delivery to the subscriber is tried; 0: it is not throttled
RETURNS
  1, or 0 if the worker does not hold the job: nothing has changed
]]
-- include: now
-- include: jobs
-- include: held
-- include: waiting
-- include: lanes

local q, worker, job, delay_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local bid, damage, throttle_ms = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local PERFECT_HEALTH = 100

if not take_from(q, worker, job) then return 0 end

local lane = leave_lane(worker)

local function fail_subscriber(token)
  local subscriber = key.subscriber(token)
  if redis.call('EXISTS', subscriber) == 0 then return end
  local health = tonumber(redis.call('HGET', subscriber, 'health_points')) or PERFECT_HEALTH
  if damage > 0 then redis.call('HSET', subscriber, 'health_points', math.max(0, health - damage)) end
  if throttle_ms > 0 then
    -- Another that failed at the same time may have been asked for more patience.
    local before = tonumber(redis.call('HGET', subscriber, 'throttled_until')) or 0
    redis.call('HSET', subscriber, 'throttled_until', math.max(before, now + throttle_ms))
  end
end

local token = bid ~= '' and redis.call('LINDEX', key.batch(bid), 0)
if token then fail_subscriber(token) end

if bid ~= '' and not token then
  -- The batch was dropped while it was being delivered: there is nothing left to try again.
  redis.call('SREM', key.jobs_index(q), job)
elseif delay_ms > 0 then
  make_scheduled(q, job, now + delay_ms)
else
  make_instant_again(q, job)
end
if lane then bring_back(lane, 1) end
announce()
return 1
