#!lua flags=allow-oom
--[[
ack: forget a job that its worker has finished, and delete the batch that it delivered.

Only the worker that holds the job can. Taken batches heal their subscriber and end its throttling.

KEYS
  schema                     string  names the partition
TOUCHES
  jobs:index:{q}             set
  jobs:pending:{q}:{worker}  list
  batch:{bid}                list
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  subscriber:{token}         hash    sent, health_points, throttled_until
ARGV
  q                          the queue
  worker                     the worker that holds the job
  job                        the packed job
  bid                        the batch that it delivered, or empty
  heal                       the health points that the subscriber gains
RETURNS
  held                       1, or 0 if the worker does not hold the job: nothing has changed
  removed                    how many events the batch held
]]
-- include: batches
-- include: held

local q, worker, job, bid, heal = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local PERFECT_HEALTH = 100

if not take_from(q, worker, job) then return { 0, 0 } end
redis.call('SREM', key.jobs_index(q), job)
if bid == '' then return { 1, 0 } end

local token, events = delete_batch(bid)
if not token then return { 1, 0 } end
local subscriber = key.subscriber(token)
local health = redis.call('HGET', subscriber, 'health_points')
if redis.call('EXISTS', subscriber) == 1 then
  redis.call('HINCRBY', subscriber, 'sent', events)
  redis.call('HSET', subscriber, 'health_points', math.min(PERFECT_HEALTH, (tonumber(health) or PERFECT_HEALTH) + heal))
  redis.call('HDEL', subscriber, 'throttled_until')
end
return { 1, events }
