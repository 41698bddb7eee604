#!lua flags=allow-oom
--[[
acquire: hand instant jobs to idle workers, one each at most, oldest first.

A worker that already holds a job gets the same one again: the reply that gave it was lost. A batch is closed to events
and its attempt counted in the same step. Deliveries to a subscriber that is throttled are put off until it may be tried;
the first that goes then holds the others back for as long as it may take (probe_ms).

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash    the workers' heartbeat
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  batch:{bid}                list    attempts
  batches:current:{token}    set
  subscriber:{token}         hash    last_attempted_at, throttled_until
ARGV
  q                          the queue
  probe_ms                   how long a delivery may take
  worker…                    idle workers
RETURNS
  left                       how many instant jobs are left
  now                        ms
  grants                     a list of {worker, job, batch, subscriber}; the last two for jobs that deliver only:
                             batch is the list as stored, its attempt counted; subscriber is the hash as field, value, …
]]
-- include: now
-- include: jobs

-- How many jobs that cannot run now one call steps over: bounds the time that it blocks Redis.
local MOST_PASSED_OVER = 500
-- How many events one call hands out, give or take a batch: bounds the time, and the reply.
local MOST_EVENTS = 5000

local q, probe_ms = ARGV[1], tonumber(ARGV[2])
local passed_over = 0

local function bid_of(job)
  local ok, call = pcall(cmsgpack.unpack, job)
  local args = ok and type(call) == 'table' and call[1] == 'batch' and call[2]
  if type(args) == 'table' and type(args[1]) == 'string' then return args[1] end
end

-- Puts the job off if its subscriber is throttled. If it was, and may be tried again now, this is the probe.
local function throttled(job, subscriber)
  local untl = tonumber(redis.call('HGET', subscriber, 'throttled_until'))
  if not untl then return false end
  if untl > now then
    make_scheduled(q, job, untl)
    return true
  end
  redis.call('HSET', subscriber, 'throttled_until', now + probe_ms)
  return false
end

-- The batch and its subscriber, as they go to the worker; nothing if there is no such batch.
local function load_batch(bid, attempt)
  local batch = key.batch(bid)
  local token = redis.call('LINDEX', batch, 0)
  if not token then return end
  if attempt == 'new' then
    redis.call('SREM', key.batches_current(token), bid)
    redis.call('LSET', batch, 2, redis.call('LINDEX', batch, 2) + 1)
    if redis.call('EXISTS', key.subscriber(token)) == 1 then
      redis.call('HSET', key.subscriber(token), 'last_attempted_at', now)
    end
  end
  return redis.call('LRANGE', batch, 0, -1), redis.call('HGETALL', key.subscriber(token))
end

-- The next job that can run, made pending with the worker; nothing if there is none.
local function next_grant(worker)
  while passed_over < MOST_PASSED_OVER do
    local job = redis.call('RPOP', key.jobs_instant(q))
    if not job then return end
    local bid = bid_of(job)
    local token = bid and redis.call('LINDEX', key.batch(bid), 0)
    if bid and not token then
      redis.call('SREM', key.jobs_index(q), job)
      passed_over = passed_over + 1
    elseif token and throttled(job, key.subscriber(token)) then
      passed_over = passed_over + 1
    else
      redis.call('LPUSH', key.jobs_pending(q, worker), job)
      redis.call('SADD', key.jobs_pending_index(q), worker)
      if not bid then return { worker, job } end
      return { worker, job, load_batch(bid, 'new') }
    end
  end
end

local function held_grant(worker)
  local job = redis.call('LINDEX', key.jobs_pending(q, worker), 0)
  if not job then return end
  local bid = bid_of(job)
  if not bid then return { worker, job } end
  return { worker, job, load_batch(bid, 'same') }
end

local grants, events = {}, 0
for i = 3, #ARGV do
  local worker = ARGV[i]
  redis.call('HSET', key.workers(), worker, now)
  local grant = held_grant(worker) or (events < MOST_EVENTS and next_grant(worker)) or nil
  if grant and grant[3] then events = events + #grant[3] end
  grants[#grants + 1] = grant
end
announce()
return { redis.call('LLEN', key.jobs_instant(q)), now, grants }
