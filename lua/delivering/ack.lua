#!lua flags=allow-oom
--[[
ack: forget a job that its worker has finished, and delete the batch that it delivered.

Only under the lease by which the worker holds the job. Taken batches heal their subscriber and end its trial; one that took
long makes it slow. Its lane goes on with what waited aside. acquire does the same on its way, for many jobs at a time.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  workers:main               set
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
  attempts:{bid}             list
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  gap:telling:{token}        hash
  subscriber:{token}         hash    sent, health_points, throttled_until, slow, probe; reads the settings of its lane
ARGV
  q                          the queue
  lease_ms                   how long a worker holds a job without being heard of
  lane_limit                 how many deliveries to one subscriber may be in flight, unless it asked for another number
  lane_limit_max             the most that it may ask for
  worker                     the worker that holds the job
  job                        the packed job; empty if it is the one that delivers the batch `bid`, as this bus packs it
  lease                      the number of its lease
  bid                        the batch that it delivered, or empty
  heal                       the health points that the subscriber gains
  took_ms                    how long it took the subscriber to take the batch
RETURNS
  held                       1, or 0 if the worker does not hold the job: nothing has changed
  removed                    how many events the batch held
  left                       how many jobs are ready: who acks looks for the next, so nobody else is told
]]
-- include: now
-- include: try
-- include: jobs
-- include: health
-- include: batches
-- include: leases
-- include: waiting
-- include: probe
-- include: lanes
-- include: gaps
-- include: finish

local FIRST_FINISHED = 5

local q, lease_ms, lane_limit, lane_limit_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local acks = finish_all(q, FIRST_FINISHED, 1, lease_ms, lane_limit, lane_limit_max)
throw_failure()
return { acks[1], acks[2], count_ready(q) }
