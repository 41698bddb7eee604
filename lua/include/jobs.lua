-- Jobs: the transitions that several scripts share. A job is in its queue's index, and in exactly one of scheduled,
-- instant (or waiting aside for its lane, or for room in a share), or one worker's pending list.

-- The job that delivers a batch: `['batch', [bid]]`, which begins with the same bytes for all UIDs of 20 characters.
local function batch_job(bid)
  if #bid == 20 then return '\146\165batch\145\180' .. bid end
  return cmsgpack.pack({ 'batch', { bid } })
end

-- Tells the workers of a queue that it has an instant job, and the scheduler that the next deadline came nearer.
-- Once a call: `wakes` collects what there is to say.
local wakes = {}
local function announce()
  for what in pairs(wakes) do
    redis.call('PUBLISH', wake_channel, what)
  end
end

-- Instant jobs are pushed left and popped right.
local function make_instant(q, ...)
  redis.call('LPUSH', key.jobs_instant(q), ...)
  wakes[q] = true
end

-- A job that was begun already goes before those that were not.
local function make_instant_again(q, job)
  redis.call('RPUSH', key.jobs_instant(q), job)
  wakes[q] = true
end

-- first_due[q]: the earliest deadline before this call scheduled anything; the scheduler sleeps until then.
local first_due = {}
local function make_scheduled(q, job, at)
  local scheduled = key.jobs_scheduled(q)
  if not first_due[q] then
    first_due[q] = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]) or math.huge
  end
  redis.call('ZADD', scheduled, at, job)
  if at < first_due[q] then
    first_due[q] = at
    wakes.due = true
  end
end
