--[[
Choosing: finds the next job that can run, and the batch that it delivers.
]]
local attempts = include('delivering/attempts')
local batches = include('delivering/batches')
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local lane_entry = include('delivering/lane_entry')
local ruby = include('maintenance/ruby')
local shares = include('delivering/shares')
local choosing = {}

-- Maximum jobs that a script call skips because they cannot run now. Skipping more would block Redis for too long.
local MAX_PASSED_OVER = 500

-- Number of items that are read from the start of a batch's list: the header and up to ten events.
choosing.START = batches.HEADER + 10

-- Creates the state of a script call that chooses jobs for the idle workers in `args`. Some fields:
--   popped            the instant jobs that the call has taken from their list
--   position          the position in `popped` of the job that was tried last
--   waiting_by_share  for each share, the number of jobs that wait for a free worker of the share
--   is_exhausted      true as soon as no job is left to try
--   lanes             a cache: the result of `lane_entry.read` for each subscriber
--   entered           the number of deliveries that the call has begun
function choosing.begin(call, args)
  local waiting = args.q == 'main' and shares.count_jobs(call) or {}
  return {
    args = args, q = args.q, kind = args.kind, workers = #args.workers, popped = {}, position = 0,
    waiting_by_share = waiting, passed_over = 0, lanes = {}, entered = 0,
  }
end

-- Returns the header and the first events of a batch's list: START items at most. Returns nothing if the list does not
-- exist, or is not the list of a batch.
function choosing.start_of(call, bid)
  local start = calls.read_or_nil('LRANGE', call.keys.batch(bid), 0, choosing.START - 1)
  if start and tonumber(start[3]) then return start end
end

-- Turns a stray into a batch of this bus (maintenance/ruby.lua). A stray is a batch that a Ruby Routemaster stored
-- after this bus had taken over its Redis. Returns the first items of the batch's list, or nothing if `bid` is not such
-- a batch, or cannot become a batch of this bus.
local function start_of_stray(call, bid)
  if not ruby.adopt(call, bid) then return end
  redis.call('INCR', call.keys.strays_adopted())
  return choosing.start_of(call, bid)
end

-- Returns the next job to try, or nothing if none is left. A quarantine gets only the jobs of suspects. For other
-- workers, the jobs that wait for a worker of their share (shares.lua) come first, if the share has a free worker now.
-- Then come the instant jobs, which any worker may take.
local function next_job(call, choice)
  if choice.kind == 'quarantine' then return redis.call('LPOP', call.keys.jobs_suspect()) end
  for _, share in ipairs(shares.NAMES) do
    local waiting = choice.waiting_by_share[share] or 0
    if waiting > 0 and shares.room(call, share) > 0 then
      choice.waiting_by_share[share] = waiting - 1
      return redis.call('LPOP', call.keys.share_jobs(share))
    end
  end
  if choice.position == #choice.popped then
    choice.popped, choice.position = redis.call('RPOP', call.keys.jobs_instant(choice.q), choice.workers) or {}, 0
  end
  choice.position = choice.position + 1
  return choice.popped[choice.position]
end

-- Returns how many jobs of a queue a worker of this `kind` can take now: what `next_job` would still find.
-- `waiting_by_share` is a result of `shares.count_jobs`, which is called if it is missing.
function choosing.count_ready(call, q, kind, waiting_by_share)
  if kind == 'quarantine' then return redis.call('LLEN', call.keys.jobs_suspect()) end
  local ready = redis.call('LLEN', call.keys.jobs_instant(q))
  if q ~= 'main' then return ready end
  for share, waiting in pairs(waiting_by_share or shares.count_jobs(call)) do
    if waiting > 0 then ready = ready + math.max(0, math.min(waiting, shares.room(call, share))) end
  end
  return ready
end

-- Only a quarantine delivers suspects (batches that may have killed workers). If `bid` is a suspect, and this worker is
-- no quarantine, makes the job wait for a quarantine, and returns true. Otherwise returns false.
local function leave_to_quarantine(call, choice, job, bid)
  if choice.kind == 'quarantine' or not attempts.is_suspect(call, bid) then return false end
  jobs.make_suspect(call, job)
  return true
end

-- Tries a job, which has left its list. Returns true if the worker may run it now, and for a delivery also the UID of
-- the batch and the first items of its list. Otherwise puts the job where it must wait, or deletes it if its batch is
-- gone, and returns false.
local function try(call, choice, worker, job)
  local bid = jobs.batch_of(job)
  if not bid then return true end
  local start = choosing.start_of(call, bid) or start_of_stray(call, bid)
  if not start then
    redis.call('SREM', call.keys.jobs_index(choice.q), job)
    return false
  end
  if leave_to_quarantine(call, choice, job, bid) then return false end
  return lane_entry.enter(call, choice, worker, job, start[1]), bid, start
end

-- Gives the worker the next job that can run. Returns the job, and for a delivery the batch and its first items.
-- Returns nothing if no job can run, or after MAX_PASSED_OVER skipped jobs. If `try` throws, the job is in no list
-- until the sweep puts it back.
function choosing.take_next(call, choice, worker)
  while choice.passed_over < MAX_PASSED_OVER do
    local job = next_job(call, choice)
    if not job then
      choice.is_exhausted = true
      return
    end
    local can_run, bid, start = try(call, choice, worker, job)
    if can_run then
      redis.call('LPUSH', call.keys.jobs_pending(choice.q, worker), job)
      return job, bid, start
    end
    choice.passed_over = choice.passed_over + 1
  end
end

-- Puts the popped jobs that were not tried back into the list of instant jobs, in their old order. They go to the right
-- end of the list, where workers take jobs, so they are the next ones taken.
function choosing.put_back(call, choice)
  for i = #choice.popped, choice.position + 1, -1 do
    redis.call('RPUSH', call.keys.jobs_instant(choice.q), choice.popped[i])
  end
end

return choosing
