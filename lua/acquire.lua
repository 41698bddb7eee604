#!lua flags=allow-oom
--[[
acquire: hand instant jobs to idle workers, one each at most, oldest first.

A worker that already holds a job gets the same one again: the reply that gave it was lost. A batch is closed to events
and its attempt counted in the same step. A delivery for which the lane of its subscriber has no room is put aside; it
costs nothing more until the lane brings it back.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash    the workers' heartbeat
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       list
  lanes:in_flight            hash
  lanes:held                 hash
  batch:{bid}                list    attempts
  batches:current:{token}    set
  subscriber:{token}         hash    last_attempted_at, throttled_until, probe
ARGV
  q                          the queue
  lane_limit                 how many deliveries to one subscriber may be in flight
  worker…                    idle workers
RETURNS
  left                       how many instant jobs are left
  now                        ms
  grants                     a list of {worker, job, batch, subscriber}; the last two for jobs that deliver only:
                             batch is the list as stored, its attempt counted; subscriber is the hash as field, value, …
]]
-- include: now
-- include: jobs
-- include: lane_entry

-- How many jobs that cannot run now one call steps over: bounds the time that it blocks Redis.
local MOST_PASSED_OVER = 500
-- How much one call hands out, give or take a batch: bounds the time that it blocks Redis, and the reply.
local MOST_EVENTS = 5000
local MOST_BYTES = 1000000

local q, lane_limit = ARGV[1], tonumber(ARGV[2])
local passed_over, empty = 0, false

local function bid_of(job)
  local ok, call = pcall(cmsgpack.unpack, job)
  local args = ok and type(call) == 'table' and call[1] == 'batch' and call[2]
  if type(args) == 'table' and type(args[1]) == 'string' then return args[1] end
end

-- Closes the batch and counts the attempt.
local function begin_attempt(bid, token)
  local batch = key.batch(bid)
  redis.call('SREM', key.batches_current(token), bid)
  redis.call('LSET', batch, 2, redis.call('LINDEX', batch, 2) + 1)
  if redis.call('EXISTS', key.subscriber(token)) == 1 then
    redis.call('HSET', key.subscriber(token), 'last_attempted_at', now)
  end
end

local function grant(worker, job, bid, token)
  if not token then return { worker, job } end
  return { worker, job, redis.call('LRANGE', key.batch(bid), 0, -1), redis.call('HGETALL', key.subscriber(token)) }
end

-- The next job that can run, made pending with the worker; nothing if there is none.
local function next_grant(worker)
  while passed_over < MOST_PASSED_OVER do
    local job = redis.call('RPOP', key.jobs_instant(q))
    if not job then
      empty = true
      return
    end
    local bid = bid_of(job)
    -- What is no list is no batch; an error here would leave the job in no state at all.
    local token = bid and redis.pcall('LINDEX', key.batch(bid), 0)
    if bid and type(token) ~= 'string' then
      redis.call('SREM', key.jobs_index(q), job)
      passed_over = passed_over + 1
    elseif token and not enter_lane(worker, job, token, lane_limit) then
      passed_over = passed_over + 1
    else
      redis.call('LPUSH', key.jobs_pending(q, worker), job)
      redis.call('SADD', key.jobs_pending_index(q), worker)
      if token then begin_attempt(bid, token) end
      return grant(worker, job, bid, token)
    end
  end
end

local function held_grant(worker)
  local job = redis.call('LINDEX', key.jobs_pending(q, worker), 0)
  if not job then return end
  local bid = bid_of(job)
  return grant(worker, job, bid, bid and redis.call('LINDEX', key.batch(bid), 0))
end

local function say_alive()
  local heard = {}
  for i = 3, #ARGV do
    heard[#heard + 1] = ARGV[i]
    heard[#heard + 1] = now
  end
  if #heard > 0 then redis.call('HSET', key.workers(), unpack(heard)) end
end

local grants, events, bytes = {}, 0, 0
local function hand_out(granted)
  grants[#grants + 1] = granted
  for _, item in ipairs(granted[3] or {}) do
    events = events + 1
    bytes = bytes + #item
  end
end

say_alive()
for i = 3, #ARGV do
  local worker = ARGV[i]
  local room = not empty and events < MOST_EVENTS and bytes < MOST_BYTES
  local granted = held_grant(worker) or room and next_grant(worker)
  if granted then hand_out(granted) end
end
announce()
return { redis.call('LLEN', key.jobs_instant(q)), now, grants }
