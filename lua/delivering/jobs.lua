--[[
Jobs: the changes of a job's state that several scripts make.

A function that gives workers or the scheduler something to do notes in `call.wakes` whom to wake. When the script ends,
the announcement that wakes them is published.

A *suspect* is a batch that at least two workers were delivering when they died: it may have killed them. Only a
*quarantine*, a process that delivers suspects one at a time, takes their jobs.
]]
local agenda = include('flow/agenda')
local jobs = {}

-- Returns the job that delivers a batch. `bid` is the UID of the batch.
function jobs.delivery_of(bid)
  return cmsgpack.pack({ 'batch', { bid } })
end

-- Returns the UID of the batch that a job delivers. Returns nothing if the job delivers none.
function jobs.batch_of(job)
  local ok, packed = pcall(cmsgpack.unpack, job)
  local args = ok and type(packed) == 'table' and packed[1] == 'batch' and packed[2]
  if type(args) == 'table' and type(args[1]) == 'string' then return args[1] end
end

-- Makes jobs instant, so that any worker may take them. They come after all other instant jobs, because jobs are pushed
-- at the left end of the list and popped at the right.
function jobs.make_instant(call, q, ...)
  redis.call('LPUSH', call.keys.jobs_instant(q), ...)
  call.wakes[q] = true
end

-- Adds an instant job to its queue. If the queue already has the job in any state, does nothing and returns false.
function jobs.put(call, q, job)
  if redis.call('SADD', call.keys.jobs_index(q), job) == 0 then return false end
  jobs.make_instant(call, q, job)
  return true
end

-- Makes a job instant after a worker has given it back or died, so that any worker may take it. The job comes before
-- all other instant jobs.
function jobs.make_instant_again(call, q, job)
  redis.call('RPUSH', call.keys.jobs_instant(q), job)
  call.wakes[q] = true
end

-- Adds the job of a suspect (a batch that may have killed workers) to the end of the list from which only quarantines
-- take jobs.
function jobs.make_suspect(call, job)
  redis.call('RPUSH', call.keys.jobs_suspect(), job)
  call.wakes.suspect = true
end

-- Schedules a job for the time `due_ms`.
function jobs.make_scheduled(call, q, job, due_ms)
  agenda.enter(call, call.keys.jobs_scheduled(q), job, due_ms)
end

return jobs
