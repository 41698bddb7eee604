--[[
Jobs: the transitions that several scripts share.

A job is in its queue's index, and in exactly one state: scheduled, instant (or waiting for its lane or
for room in a share), or in one worker's pending list. A function that gives workers or the scheduler
something to do marks it in `call.wakes`, and the script announces it at its end.
]]
local jobs = {}

-- The job that delivers a batch: `['batch', [bid]]`, which begins with the same bytes for all UIDs of 20
-- characters.
local DELIVERY = '\146\165batch\145\180'

function jobs.delivery_of(bid)
  if #bid == 20 then return DELIVERY .. bid end
  return cmsgpack.pack({ 'batch', { bid } })
end

-- The batch that a job delivers; nothing if it does something else.
function jobs.batch_of(job)
  if #job == #DELIVERY + 20 and job:sub(1, #DELIVERY) == DELIVERY then return job:sub(-20) end
  local ok, packed = pcall(cmsgpack.unpack, job)
  local args = ok and type(packed) == 'table' and packed[1] == 'batch' and packed[2]
  if type(args) == 'table' and type(args[1]) == 'string' then return args[1] end
end

-- Instant jobs are pushed left and popped right.
function jobs.make_instant(call, q, ...)
  redis.call('LPUSH', call.keys.jobs_instant(q), ...)
  call.wakes[q] = true
end

-- A job that was begun already goes before the others.
function jobs.make_instant_again(call, q, job)
  redis.call('RPUSH', call.keys.jobs_instant(q), job)
  call.wakes[q] = true
end

-- Wakes the scheduler only where its next deadline comes nearer: it sleeps until then.
function jobs.make_scheduled(call, q, job, due_ms)
  local scheduled, first = call.keys.jobs_scheduled(q), call.first_due_ms[q]
  if not first then first = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]) or math.huge end
  redis.call('ZADD', scheduled, due_ms, job)
  if due_ms < first then call.wakes.due = true end
  call.first_due_ms[q] = math.min(first, due_ms)
end

return jobs
