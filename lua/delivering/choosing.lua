--[[
Choosing: finds the next job that can run, and the batch that it delivers.
]]
local attempts = include('delivering/attempts')
local batches = include('delivering/batches')
local jobs = include('delivering/jobs')
local lane_entry = include('delivering/lane_entry')
local lanes = include('delivering/lanes')
local ruby = include('maintenance/ruby')
local choosing = {}

-- Maximum jobs that one script call skips because they cannot run now. The maximum bounds the time for which a call
-- blocks Redis.
local MAX_PASSED_OVER = 500

-- Number of items that are read at the start of a batch's list: its header and up to ten events. A short list is read
-- as a whole.
choosing.START = batches.HEADER + 10

-- Creates the working state of a script call that chooses jobs for workers. `workers` is the number of workers that
-- need a job, and `kind` is their kind: 'regular', 'spare' or 'quarantine' (acquire.lua). The call pops `workers`
-- instant jobs (jobs that are ready for a worker) at a time into `popped`. `put_back` returns those that were not
-- tried.
--
-- Other jobs wait for room in a share, which limits how many workers the subscribers of one kind may hold together.
-- `sharing` counts, for each share, how many of its waiting jobs the call may still take. The count begins with the
-- jobs that wait now. So the call never takes a job that it has itself put at the end of the waiting jobs.
function choosing.begin(call, q, workers, kind)
  local sharing = q == 'main' and lanes.share_jobs(call) or {}
  return { q = q, kind = kind, workers = workers, popped = {}, position = 0, sharing = sharing, passed_over = 0 }
end

-- Returns the first items of a batch's list. Returns nothing if the list does not exist, or is not the list of a batch.
function choosing.start_of(call, bid)
  local start = redis.pcall('LRANGE', call.keys.batch(bid), 0, choosing.START - 1)
  if tonumber(start[3]) then return start end
end

-- Adopts the batch `bid` if it is a stray: a batch that a process of the Ruby Routemaster stored after this bus had
-- taken over its Redis. Such a batch has a Redis key that this bus does not read. Adopting renames the key, and enters
-- the batch in the indexes of this bus. Returns the first items of the batch's list, or nothing if there is no such
-- stray.
local function start_of_stray(call, bid)
  if not ruby.adopt(call, bid) then return end
  redis.call('INCR', call.keys.strays_adopted())
  return choosing.start_of(call, bid)
end

-- Returns the next job to try, or nothing if none is left. Jobs that wait for room in a share come first, but only if
-- the share has room now. A share limits how many workers the subscribers of one kind may hold together. There is one
-- share for slow subscribers, one for failing ones, and one for joins.
local function next_job(call, choice)
  if choice.kind == 'quarantine' then return redis.call('LPOP', call.keys.jobs_suspect()) end
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

-- If the batch of a job is a suspect, makes the job wait for the quarantine, and returns true. A suspect is a batch
-- that two workers held when they died. The quarantine is a process that delivers nothing but suspects, one at a time,
-- so its own jobs need no check. A batch without an attempt (`begun` is '0') is no suspect, so its history is not read.
local function set_aside(call, choice, job, bid, begun)
  if choice.kind == 'quarantine' or begun == '0' or not attempts.is_suspect(call, bid) then return false end
  jobs.make_suspect(call, job)
  return true
end

-- Returns three values: the next job that can run, the UID of its batch, and the first items of the batch's list (the
-- last two are nil if the job delivers no batch). The job is then pending with the worker. Returns nothing if no job
-- can run, or if too many jobs were skipped. If `lane_entry.enter` throws, the job is lost (neither instant, nor
-- waiting, nor pending) until a sweep repairs this. No other job is affected.
function choosing.take_next(call, choice, reader, worker)
  while choice.passed_over < MAX_PASSED_OVER do
    local job = next_job(call, choice)
    if not job then
      choice.is_exhausted = true
      return
    end
    local bid = jobs.batch_of(job)
    local start = bid and (choosing.start_of(call, bid) or start_of_stray(call, bid))
    if bid and not start then
      redis.call('SREM', call.keys.jobs_index(choice.q), job)
      choice.passed_over = choice.passed_over + 1
    elseif bid and set_aside(call, choice, job, bid, start[3]) then
      choice.passed_over = choice.passed_over + 1
    elseif bid and not lane_entry.enter(call, reader, worker, job, start[1]) then
      choice.passed_over = choice.passed_over + 1
    else
      redis.call('LPUSH', call.keys.jobs_pending(choice.q, worker), job)
      return job, bid, start
    end
  end
end

-- Puts the popped jobs that were not tried back into the list of instant jobs (jobs that are ready for a worker), in
-- their old order. Workers take jobs from the right end of this list, so the jobs are pushed there.
function choosing.put_back(call, choice)
  for i = #choice.popped, choice.position + 1, -1 do
    redis.call('RPUSH', call.keys.jobs_instant(choice.q), choice.popped[i])
  end
end

return choosing
