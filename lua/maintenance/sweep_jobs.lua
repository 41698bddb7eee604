#!lua flags=allow-oom
--[[
sweep_jobs: mend what is wrong with jobs that are suspected of it.

A delivery has its job for as long as its batch is there, and no longer; a job is in its queue's index, and in exactly one
state. The instant list is searched for each job, so few are to be given at a time where it is long. A job that is sound
stays as it is. What is left of a dropped batch in the instant list and those of shares is sound: acquire forgets it.

KEYS
  schema                     string  names the partition
TOUCHES
  batch:{bid}                list
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
  leases                     hash
ARGV
  q                          the queue
  job, bid, lane…            a job; the batch that it delivers, or empty; the subscriber in whose lane it was seen to wait
                             aside, or empty; again and again
RETURNS
  a list of kind, bid or job: what was mended; again and again
]]
-- include: jobs
-- include: lanes

local q = ARGV[1]
local FIRST_JOB = 2

local findings = {}
local function found(kind, name)
  findings[#findings + 1] = kind
  findings[#findings + 1] = name
end

-- By job: the workers that hold it, each as often as it does.
local holders = {}
for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index(q))) do
  for _, job in ipairs(redis.call('LRANGE', key.jobs_pending(q, worker), 0, -1)) do
    holders[job] = holders[job] or {}
    holders[job][worker] = (holders[job][worker] or 0) + 1
  end
end

-- The lists that may have the job, but for those of workers; and the sorted sets.
local function lists()
  if q ~= 'main' then return { key.jobs_instant(q) } end
  return { key.jobs_instant(q), key.share_jobs('slow'), key.share_jobs('failing') }
end
local function sorted_sets(bid, lane)
  local sets = { key.jobs_scheduled(q) }
  local token = bid ~= '' and redis.call('LINDEX', key.batch(bid), 0)
  if token then sets[#sets + 1] = key.jobs_waiting(token) end
  if lane ~= '' and lane ~= token then sets[#sets + 1] = key.jobs_waiting(lane) end
  return sets
end

-- The worker finds out when it settles the job.
local function let_go(worker)
  redis.call('HDEL', key.leases(), worker)
  leave_lane(worker)
end

-- Takes the job out of wherever it is, but for one place: a worker's hands before all. Answers in how many it was.
local function keep_one(job, bid, lane)
  local places = 0
  local function trim(list, times)
    if times > 0 and (places > 0 or times > 1) then
      redis.call('LREM', list, places > 0 and 0 or times - 1, job)
    end
    places = places + times
  end
  for worker, times in pairs(holders[job] or {}) do
    if places > 0 then let_go(worker) end
    trim(key.jobs_pending(q, worker), times)
  end
  for _, list in ipairs(lists()) do
    trim(list, #redis.call('LPOS', list, job, 'COUNT', 0))
  end
  for _, set in ipairs(sorted_sets(bid, lane)) do
    if redis.call('ZSCORE', set, job) then
      if places > 0 then redis.call('ZREM', set, job) end
      places = places + 1
    end
  end
  return places
end

-- Of a batch that is gone.
local function forget(job, bid, lane)
  if holders[job] then return end
  local removed = redis.call('SREM', key.jobs_index(q), job) + redis.call('ZREM', key.jobs_scheduled(q), job)
  if lane ~= '' then removed = removed + redis.call('ZREM', key.jobs_waiting(lane), job) end
  if removed > 0 then found('job_without_batch', bid) end
end

local function check(job, bid, lane)
  if bid ~= '' and redis.call('TYPE', key.batch(bid)).ok ~= 'list' then return forget(job, bid, lane) end
  local name = bid ~= '' and bid or job
  local indexed = redis.call('SISMEMBER', key.jobs_index(q), job) == 1
  local places = keep_one(job, bid, lane)
  if places > 1 then found('job_in_two_states', name) end
  -- One that delivers nothing has run meanwhile.
  if places == 0 and not indexed and bid == '' then return end
  if places == 0 then make_instant(q, job) end
  if not indexed then
    redis.call('SADD', key.jobs_index(q), job)
    found(places == 0 and 'batch_without_job' or 'job_unindexed', name)
  elseif places == 0 then
    found('job_in_no_state', name)
  end
end

for i = FIRST_JOB, #ARGV, 3 do
  check(ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
announce()
return findings
