#!lua flags=allow-oom
--[[
sweep_jobs: check jobs of a queue that seemed wrong to the caller (`suspects`), and repair them. Returns the findings.

A batch has a delivery job for as long as the batch exists. Every job is in the index of its queue, and in exactly one
state. Correct jobs stay unchanged. The job of a dropped batch may remain in the instant list, in `shares:jobs:{share}`
or in `jobs:suspect`: acquire removes it there. The script searches the instant list for each of the jobs. So if that
list is long, the caller passes only a few jobs at a time.

`job` of a suspect is the packed job. `bid` is the batch that the job delivers; it is missing for other jobs. If the
caller saw the job among the waiting jobs of a subscriber, `lane_token` is this subscriber. `ruby_workers` is the number
of living workers of the Ruby Routemaster, if there are any.
]]
local findings = include('maintenance/findings')
local jobs = include('delivering/jobs')
local lanes = include('delivering/lanes')
local ruby = include('maintenance/ruby')
local shares = include('delivering/shares')

-- Returns the workers that have each job: `holders[job][worker]` tells how often the job is in the worker's list. A
-- number above 1 means that the list is damaged.
local function read_holders(call, q)
  local holders = {}
  for _, worker in ipairs(redis.call('SMEMBERS', call.keys.jobs_pending_index(q))) do
    for _, job in ipairs(redis.call('LRANGE', call.keys.jobs_pending(q, worker), 0, -1)) do
      holders[job] = holders[job] or {}
      holders[job][worker] = (holders[job][worker] or 0) + 1
    end
  end
  return holders
end

-- Returns the keys of the lists from which workers of the queue `q` take jobs.
local function lists_of(call, q)
  local lists = { call.keys.jobs_instant(q) }
  if q ~= 'main' then return lists end
  for _, share in ipairs(shares.NAMES) do lists[#lists + 1] = call.keys.share_jobs(share) end
  lists[#lists + 1] = call.keys.jobs_suspect()
  return lists
end

local function sorted_sets_of(call, q, suspect)
  local sets, lane_token = { call.keys.jobs_scheduled(q) }, suspect.lane_token
  local token = suspect.bid and redis.call('LINDEX', call.keys.batch(suspect.bid), 0)
  if token then sets[#sets + 1] = call.keys.jobs_waiting(token) end
  if lane_token and lane_token ~= token then sets[#sets + 1] = call.keys.jobs_waiting(lane_token) end
  return sets
end

-- Removes surplus copies of a job from one list, which has `times` copies. `copies_found` is the number of copies in
-- the lists that were looked at before. If it is 0, one copy stays in this list, otherwise none. Returns the sum of
-- `copies_found` and `times`.
local function trim(list, job, times, copies_found)
  if times > 0 and (copies_found > 0 or times > 1) then
    redis.call('LREM', list, copies_found > 0 and 0 or times - 1, job)
  end
  return copies_found + times
end

-- Removes all copies of a job but one from the lists, sorted sets and workers that have it. If a worker has the job,
-- that worker keeps it. Returns how many copies there were; 0 means that the job was lost.
local function keep_one(call, q, suspect, holders)
  local job, copies_found = suspect.job, 0
  for worker, times in pairs(holders[job] or {}) do
    if copies_found > 0 then
      -- Several workers hold this job. The first one keeps it. The others lose the job and their leases, so that their
      -- acks and nacks are refused.
      redis.call('HDEL', call.keys.leases(), worker)
      lanes.leave(call, worker)
    end
    copies_found = trim(call.keys.jobs_pending(q, worker), job, times, copies_found)
  end
  for _, list in ipairs(lists_of(call, q)) do
    copies_found = trim(list, job, #redis.call('LPOS', list, job, 'COUNT', 0), copies_found)
  end
  for _, set in ipairs(sorted_sets_of(call, q, suspect)) do
    if redis.call('ZSCORE', set, job) then
      if copies_found > 0 then redis.call('ZREM', set, job) end
      copies_found = copies_found + 1
    end
  end
  return copies_found
end

-- Removes a job without a batch from the index, the scheduled jobs and the waiting jobs. The job may stay in a list
-- from which workers take jobs: acquire deletes it there.
local function forget(call, q, suspect, found)
  local keys, job, lane_token = call.keys, suspect.job, suspect.lane_token
  local removed = redis.call('SREM', keys.jobs_index(q), job) + redis.call('ZREM', keys.jobs_scheduled(q), job)
  if lane_token then removed = removed + redis.call('ZREM', keys.jobs_waiting(lane_token), job) end
  if removed > 0 then findings.add(found, 'job_without_batch', suspect.bid) end
end

-- Puts a lost job where workers find it: usually into the list of instant jobs. But Ruby workers take jobs from this
-- list too, and forget delivery jobs because they find no batch. While Ruby workers run, a delivery job goes to the
-- list of jobs that wait for the share `slow` (shares.lua), because only this bus reads that list.
local function put_back(call, q, job, ruby_workers)
  if not ruby_workers or q ~= 'main' then return jobs.make_instant(call, q, job) end
  redis.call('RPUSH', call.keys.share_jobs('slow'), job)
  call.wakes[q] = true
end

local function check(call, args, suspect, holders, found)
  local q, job, bid = args.q, suspect.job, suspect.bid
  if bid and redis.call('TYPE', call.keys.batch(bid)).ok ~= 'list' then
    if not holders[job] and not ruby.is_stray(call, bid) then forget(call, q, suspect, found) end
    return
  end
  local name = bid or job
  local indexed = redis.call('SISMEMBER', call.keys.jobs_index(q), job) == 1
  local copies_found = keep_one(call, q, suspect, holders)
  if copies_found > 1 then findings.add(found, 'job_in_two_states', name) end
  -- A job that delivers no batch, and is neither in the index nor in any list or sorted set, was finished after the
  -- sweep saw it. There is nothing to repair.
  if copies_found == 0 and not indexed and not bid then return end
  if copies_found == 0 then put_back(call, q, job, args.ruby_workers) end
  if not indexed then
    redis.call('SADD', call.keys.jobs_index(q), job)
    findings.add(found, copies_found == 0 and 'batch_without_job' or 'job_unindexed', name)
  elseif copies_found == 0 then
    findings.add(found, 'job_in_no_state', name)
  end
end

return function(call, args)
  local holders, found = read_holders(call, args.q), {}
  for _, suspect in ipairs(args.suspects) do check(call, args, suspect, holders, found) end
  return found
end
