--[[
Choosing: the next job that can run, and the batch that it delivers.
]]
local batches = include('batches')
local jobs = include('jobs')
local lane_entry = include('lane_entry')
local lanes = include('lanes')
local choosing = {}

-- How many jobs that cannot run now one call passes over: bounds the time that it blocks Redis.
local MAX_PASSED_OVER = 500

-- How many items of a batch are read with its header. A batch that holds fewer needs no second read.
choosing.START = batches.HEADER + 10

-- What one call chooses from. `workers`: how many workers want a job. Instant jobs are popped that many at a
-- time; those that nobody got go back (put_back). `sharing` counts the jobs that wait for room in each share,
-- less those that got it.
function choosing.begin(call, q, workers)
  local sharing = q == 'main' and lanes.share_jobs(call) or {}
  return { q = q, workers = workers, popped = {}, position = 0, sharing = sharing, passed_over = 0 }
end

-- The beginning of a batch's list; nothing if the list is gone, or no batch.
function choosing.start_of(call, bid)
  local start = redis.pcall('LRANGE', call.keys.batch(bid), 0, choosing.START - 1)
  if tonumber(start[3]) then return start end
end

-- First the jobs that waited for room in their share, if it has any: a job that gets none now would wait
-- there again.
local function next_job(call, choice)
  for _, share in ipairs(lanes.SHARES) do
    local waiting = choice.sharing[share] or 0
    if waiting > 0 and lanes.share_room(call, share) > 0 then
      choice.sharing[share] = waiting - 1
      return redis.call('LPOP', call.keys.share_jobs(share))
    end
  end
  if choice.position == #choice.popped then
    choice.popped, choice.position = redis.call('RPOP', call.keys.jobs_instant(choice.q), choice.workers) or {}, 0
  end
  choice.position = choice.position + 1
  return choice.popped[choice.position]
end

-- The next job that can run, which is pending with the worker from now on; its batch, and the beginning of
-- the batch's list. (If entering its lane fails the job is in no state, and does not hold up the others until
-- the sweep finds it.)
function choosing.take_next(call, choice, reader, worker)
  while choice.passed_over < MAX_PASSED_OVER do
    local job = next_job(call, choice)
    if not job then
      choice.is_exhausted = true
      return
    end
    local bid = jobs.batch_of(job)
    local start = bid and choosing.start_of(call, bid)
    if bid and not start then
      redis.call('SREM', call.keys.jobs_index(choice.q), job)
      choice.passed_over = choice.passed_over + 1
    elseif bid and not lane_entry.enter(call, reader, worker, job, start[1]) then
      choice.passed_over = choice.passed_over + 1
    else
      redis.call('LPUSH', call.keys.jobs_pending(choice.q, worker), job)
      return job, bid, start
    end
  end
end

function choosing.put_back(call, choice)
  for i = #choice.popped, choice.position + 1, -1 do
    redis.call('RPUSH', call.keys.jobs_instant(choice.q), choice.popped[i])
  end
end

return choosing
