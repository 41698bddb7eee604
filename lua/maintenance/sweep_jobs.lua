#!lua flags=allow-oom
--[[
sweep_jobs: repair jobs that are suspected of being wrong.

A delivery has its job for as long as its batch is there, and no longer. A job is in its queue's index, and in
exactly one state. A correct job stays as it is. What is left of a dropped batch in the instant list and those
of shares is correct: acquire forgets it. The instant list is searched for each job, so callers give few at a
time where it is long.

A suspect is a job, with the batch that it delivers, if any, and the subscriber in whose lane it was seen to
wait, if it was.
]]
local findings = include('findings')
local jobs = include('jobs')
local lanes = include('lanes')

-- By job: the workers that hold it, each with how often it does.
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

-- The lists that may have a job, except those of workers.
local function lists_of(call, q)
  local lists = { call.keys.jobs_instant(q) }
  for _, share in ipairs(q == 'main' and lanes.SHARES or {}) do lists[#lists + 1] = call.keys.share_jobs(share) end
  return lists
end

-- The sorted sets that may have the job.
local function sorted_sets_of(call, q, suspect)
  local sets, lane = { call.keys.jobs_scheduled(q) }, suspect.lane
  local token = suspect.bid and redis.call('LINDEX', call.keys.batch(suspect.bid), 0)
  if token then sets[#sets + 1] = call.keys.jobs_waiting(token) end
  if lane and lane ~= token then sets[#sets + 1] = call.keys.jobs_waiting(lane) end
  return sets
end

-- Leaves the job in a list once if it was in no place before, else not at all. Returns in how many places it
-- was.
local function trim(list, job, times, places)
  if times > 0 and (places > 0 or times > 1) then
    redis.call('LREM', list, places > 0 and 0 or times - 1, job)
  end
  return places + times
end

-- Leaves the job in one place only: with a worker, if one holds it. Returns in how many places it was.
local function keep_one(call, q, suspect, holders)
  local job, places = suspect.job, 0
  for worker, times in pairs(holders[job] or {}) do
    if places > 0 then
      -- This worker finds out when it settles the job.
      redis.call('HDEL', call.keys.leases(), worker)
      lanes.leave(call, worker)
    end
    places = trim(call.keys.jobs_pending(q, worker), job, times, places)
  end
  for _, list in ipairs(lists_of(call, q)) do
    places = trim(list, job, #redis.call('LPOS', list, job, 'COUNT', 0), places)
  end
  for _, set in ipairs(sorted_sets_of(call, q, suspect)) do
    if redis.call('ZSCORE', set, job) then
      if places > 0 then redis.call('ZREM', set, job) end
      places = places + 1
    end
  end
  return places
end

-- The batch of the job is gone.
local function forget(call, q, suspect, found)
  local keys, job, lane = call.keys, suspect.job, suspect.lane
  local removed = redis.call('SREM', keys.jobs_index(q), job) + redis.call('ZREM', keys.jobs_scheduled(q), job)
  if lane then removed = removed + redis.call('ZREM', keys.jobs_waiting(lane), job) end
  if removed > 0 then findings.add(found, 'job_without_batch', suspect.bid) end
end

local function check(call, q, suspect, holders, found)
  local job, bid = suspect.job, suspect.bid
  if bid and redis.call('TYPE', call.keys.batch(bid)).ok ~= 'list' then
    if not holders[job] then forget(call, q, suspect, found) end
    return
  end
  local name = bid or job
  local indexed = redis.call('SISMEMBER', call.keys.jobs_index(q), job) == 1
  local places = keep_one(call, q, suspect, holders)
  if places > 1 then findings.add(found, 'job_in_two_states', name) end
  -- A job that delivers nothing has run meanwhile.
  if places == 0 and not indexed and not bid then return end
  if places == 0 then jobs.make_instant(call, q, job) end
  if not indexed then
    redis.call('SADD', call.keys.jobs_index(q), job)
    findings.add(found, places == 0 and 'batch_without_job' or 'job_unindexed', name)
  elseif places == 0 then
    findings.add(found, 'job_in_no_state', name)
  end
end

return function(call, args)
  local holders, found = read_holders(call, args.q), {}
  for _, suspect in ipairs(args.suspects) do check(call, args.q, suspect, holders, found) end
  return found
end
