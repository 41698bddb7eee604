#!lua flags=allow-oom
--[[
acquire: forget the jobs that workers have finished, and hand ready ones to idle workers, one each at most, oldest first.

What is finished is acknowledged first, as by ack, one after the other: so one call serves many workers, and each has its next
job by the same call. Each is handed out under a lease. A worker that already holds a job gets the same one again: the reply
that gave it was lost. If that lease has not run out it goes on, as this call may be the one that was held back on its way. A
batch is closed to events and its attempt counted in the same step. A delivery for which the lane of its subscriber has no
room is put aside; it costs nothing more until the lane brings it back. One for which its share has no room waits for that.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash    the workers' heartbeat
  workers:main               set
  leases                     hash
  leases:last                string
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       zset
  lanes:in_flight            hash
  lanes:held                 hash
  shares:jobs:{share}        list
  shares:workers:{share}     set
  batch:{bid}                list    attempts
  attempts:{bid}             list
  batches:open               hash
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  gap:{token}                hash
  gap:telling:{token}        hash
  subscriber:{token}         hash    last_attempted_at, sent, health_points, throttled_until, slow, probe; reads the
                                     settings of its lane
ARGV
  q                          the queue
  lease_ms                   how long a worker holds a job without being heard of
  lane_limit                 how many deliveries to one subscriber may be in flight, unless it asked for another number
  lane_limit_max             the most that it may ask for
  n                          how many jobs are finished
  worker, job, lease, bid, heal, took_ms…
                             a finished job, as ack has it; n times
  worker…                    idle workers, and those of finished jobs that want another
RETURNS
  a list, first of all in MessagePack, which is read sooner than a reply of so many values:
  left                       how many jobs are ready still
  now                        ms
  acks                       held, removed for each finished job, as ack has them; again and again
  subscribers                the subscribers of the batches, but those that left: a subscriber, a list of its callback, uuid,
                             subscribed_at, health_points, max_attempts, max_age, signing; again and again
  grants                     a list of {worker, lease, batch, gap}; the last two for jobs that deliver only: batch is
                             {subscriber, created, attempts, n, pieces}, its attempt counted; gap is what was dropped of its
                             subscriber's queue, if it is to be told, as field, value, …
  job, piece…                then, for each grant, its packed job, and the n events of its batch in so many pieces: JSON texts
                             joined with commas, or one event that is not JSON
]]
-- include: now
-- include: try
-- include: jobs
-- include: health
-- include: open_batch
-- include: batches
-- include: leases
-- include: waiting
-- include: probe
-- include: lanes
-- include: lane_entry
-- include: gaps
-- include: finish
-- include: choosing
-- include: handing_out

local FIRST_FINISHED = 6

local q, lease_ms, lane_limit, lane_limit_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local n = tonumber(ARGV[5])

-- The jobs that idle workers hold, by worker: none, but where a reply was lost.
local function held_by(workers)
  local held, lists = {}, {}
  for i, worker in ipairs(workers) do lists[i] = key.jobs_pending(q, worker) end
  if #lists == 0 or redis.call('EXISTS', unpack(lists)) == 0 then return held end
  for i, worker in ipairs(workers) do held[worker] = redis.call('LINDEX', lists[i], 0) end
  return held
end

local function say_alive(workers)
  local heard = {}
  for i, worker in ipairs(workers) do heard[2 * i - 1], heard[2 * i] = worker, NOW end
  -- Who is new here is one of those that may deliver.
  if #heard > 0 and redis.call('HSET', key.workers(), unpack(heard)) > 0 and q == 'main' then
    redis.call('SADD', key.workers_main(), unpack(workers))
  end
end

local acks, came_back = finish_all(q, FIRST_FINISHED, n, lease_ms, lane_limit, lane_limit_max)
local workers = { unpack(ARGV, FIRST_FINISHED + n * FINISHED_LENGTH) }
-- Before this call is a sign of life: what they hold, and the leases that go on.
local held = held_by(workers)
local lease_of = next(held) and leases_of(workers, lease_ms) or {}
say_alive(workers)
count_sharing(q)
local function serve(worker)
  if held[worker] then return give_again(worker, held[worker], lease_of[worker]) end
  if not is_full() then give_next(q, worker, #workers, lane_limit, lane_limit_max) end
end
for _, worker in ipairs(workers) do
  try(serve, worker)
end
put_back(q)
settle_grants(q)
local left = count_ready(q)
-- Of what came back more than these workers take.
if came_back and left > 0 then wakes[q] = true end
announce()
throw_failure()
reply[1] = cmsgpack.pack({ left, now, acks, describe_subscribers(), grants })
return reply
