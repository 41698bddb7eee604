#!lua flags=allow-oom
--[[
bury: make a dead letter of a batch that is not to be tried any more, and forget its job.

Only under the lease by which the worker holds the job. Nothing else of its subscriber is disturbed: its lane goes on with
what waited aside. The batch of a subscriber that has left is deleted.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  leases                     hash
  jobs:index:{q}             set
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:waiting:{token}       zset
  lanes:in_flight            hash
  lanes:held                 hash
  shares:jobs:{share}        list
  shares:workers:{share}     set
  batch:{bid}                list
  attempts:{bid}             list
  batches:open               hash
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  dead_letter:{bid}          list
  dead_letter:about:{bid}    hash
  dead_letters:index         zset
  dead_letters:index:{token} zset
  dead_letters:gauges:event  hash
  subscriber:{token}         hash    health_points, throttled_until; reads probe, paused_at, ordered
ARGV
  q                          the queue
  worker                     the worker that holds the job
  job                        the packed job
  lease                      the number of its lease
  lease_ms                   how long a worker holds a job without being heard of
  bid                        the batch
  damage                     the health points that the failure costs
  throttle_ms                how long no delivery to the subscriber is tried
  attempt                    what came of the last attempt, as JSON
  reason                     why it is not tried any more
RETURNS
  held                       1, or 0 if the worker does not hold the job: nothing has changed
  buried                     how many events the dead letter holds; 0: there is none
]]
-- include: now
-- include: jobs
-- include: open_batch
-- include: batches
-- include: dead_letters
-- include: leases
-- include: waiting
-- include: lanes
-- include: health
-- include: failures

local q, worker, job, lease, lease_ms = unpack(ARGV, 1, 5)
local bid, damage, throttle_ms, attempt, reason = unpack(ARGV, 6, 10)

if not take_from(q, worker, job, lease, leases_of({ worker }, tonumber(lease_ms))) then return { 0, 0 } end
redis.call('HDEL', key.leases(), worker)
redis.call('SREM', key.jobs_index(q), job)

local lane = leave_lane(worker)
local token, buried = redis.call('LINDEX', key.batch(bid), 0), 0
if token and redis.call('EXISTS', key.subscriber(token)) == 1 then
  note_attempt(bid, attempt)
  fail_subscriber(token, tonumber(damage), tonumber(throttle_ms))
  token, buried = bury_batch(bid, reason)
elseif token then
  delete_batch(bid)
end
if lane then bring_back(lane, 1) end
announce()
return { 1, buried }
