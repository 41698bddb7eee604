#!lua flags=allow-oom
--[[
scrub: give back the jobs of workers that died, and forget the workers.

A worker is dead when it was not heard of for longer than its lease. Its job is instant again, before the others.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  workers:main               set
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       zset
  batches:index:{token}      zset
  subscriber:{token}         hash    reads probe, paused_at, ordered
  leases                     hash
  lanes:in_flight            hash
  lanes:held                 hash
  shares:jobs:{share}        list
  shares:workers:{share}     set
ARGV
  lease_ms                   a worker not heard of for longer is dead
  q…                         the queues
RETURNS
  workers                    how many workers were forgotten
  jobs                       a list of how many jobs were given back, one for each queue
]]
-- include: now
-- include: jobs
-- include: waiting
-- include: lanes

local lease_ms = tonumber(ARGV[1])
local heard = redis.call('HGETALL', key.workers())
local alive, dead = {}, {}
for i = 1, #heard, 2 do
  if now - (tonumber(heard[i + 1]) or 0) > lease_ms then
    dead[#dead + 1] = heard[i]
  else
    alive[heard[i]] = true
  end
end

local jobs = {}
for i = 2, #ARGV do
  local q, given_back = ARGV[i], 0
  for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index(q))) do
    if not alive[worker] then
      local lane = q == 'main' and leave_lane(worker)
      local job = redis.call('RPOP', key.jobs_pending(q, worker))
      while job do
        make_instant_again(q, job)
        given_back = given_back + 1
        job = redis.call('RPOP', key.jobs_pending(q, worker))
      end
      -- It brings back what waited for it, but for the oldest of an ordered lane, behind which it may have to wait itself.
      if lane then bring_back(lane, 0) end
      redis.call('SREM', key.jobs_pending_index(q), worker)
      redis.call('HDEL', key.leases(), worker)
    end
  end
  jobs[#jobs + 1] = given_back
end
for _, worker in ipairs(dead) do
  redis.call('HDEL', key.workers(), worker)
  redis.call('SREM', key.workers_main(), worker)
end
announce()
return { #dead, jobs }
