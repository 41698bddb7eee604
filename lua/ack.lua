#!lua flags=allow-oom
--[[
ack: forget a job that its worker has finished, and delete the batch that it delivered.

Only the worker that holds the job can. Taken batches heal their subscriber and end its throttling. Its lane goes on
with what waited aside.

KEYS
  schema                     string  names the partition
TOUCHES
  jobs:index:{q}             set
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:waiting:{token}       list
  lanes:in_flight            hash
  lanes:held                 hash
  batch:{bid}                list
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  subscriber:{token}         hash    sent, health_points, throttled_until, probe
ARGV
  q                          the queue
  worker                     the worker that holds the job
  job                        the packed job
  bid                        the batch that it delivered, or empty
  heal                       the health points that the subscriber gains
  lane_limit                 how many deliveries to one subscriber may be in flight
RETURNS
  held                       1, or 0 if the worker does not hold the job: nothing has changed
  removed                    how many events the batch held
  left                       how many instant jobs there are: who acks looks for the next, so nobody else is told
]]
-- include: jobs
-- include: batches
-- include: held
-- include: waiting
-- include: lanes

local q, worker, job, bid = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local heal, lane_limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local PERFECT_HEALTH = 100

if not take_from(q, worker, job) then return { 0, 0, 0 } end
redis.call('SREM', key.jobs_index(q), job)

-- True if that ended its throttling.
local function heal_subscriber(token, events)
  local subscriber = key.subscriber(token)
  if redis.call('EXISTS', subscriber) == 0 then return false end
  local health = tonumber(redis.call('HGET', subscriber, 'health_points')) or PERFECT_HEALTH
  redis.call('HINCRBY', subscriber, 'sent', events)
  redis.call('HSET', subscriber, 'health_points', math.min(PERFECT_HEALTH, health + heal))
  return redis.call('HDEL', subscriber, 'throttled_until', 'probe') > 0
end

local removed, recovered = 0, false
if bid ~= '' then
  local token, events = delete_batch(bid)
  if token then
    recovered = heal_subscriber(token, events)
    removed = events
  end
end
local lane = leave_lane(worker)
if lane then bring_back(lane, recovered and lane_limit or 1) end
return { 1, removed, redis.call('LLEN', key.jobs_instant(q)) }
