#!lua flags=allow-oom
--[[
enqueue: put an instant job in a queue, unless the queue has it already in any state.

A copy that is pending with a worker whose lease ran out is given back here: else a periodic job that died while
pending, the scrub itself among them, would keep its successors out.

KEYS
  schema                     string  names the partition
TOUCHES
  jobs:index:{q}             set
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  workers                    hash
  leases                     hash
ARGV
  q                          the queue
  job                        the packed job
  lease_ms                   a worker not heard of for longer is dead
RETURNS
  1 if the job is instant by this call, 0 if the queue had it
]]
-- include: now
-- include: jobs
-- include: leases

local q, job, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local function take_from_the_dead()
  for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index(q))) do
    if is_dead(worker, lease_ms) and redis.call('LREM', key.jobs_pending(q, worker), 1, job) == 1 then
      redis.call('HDEL', key.leases(), worker)
      return true
    end
  end
  return false
end

if redis.call('SADD', key.jobs_index(q), job) == 1 then
  make_instant(q, job)
elseif take_from_the_dead() then
  make_instant_again(q, job)
else
  return 0
end
announce()
return 1
