-- Dropping: deleting a batch that was not delivered, with its job.

-- The jobs that workers hold, and how many: their batches are being delivered right now, and are not dropped.
local function jobs_held()
  local held, count = {}, 0
  for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index('main'))) do
    local job = redis.call('LINDEX', key.jobs_pending('main', worker), 0)
    if job then
      held[job] = true
      count = count + 1
    end
  end
  return held, count
end

-- A job that was instant stays in that list, which may be long, until acquire finds no batch for it. It may have been the
-- one that brings back what waits aside, so one takes its place.
local function drop_job(job, token)
  redis.call('SREM', key.jobs_index('main'), job)
  local scheduled = redis.call('ZREM', key.jobs_scheduled('main'), job) == 1
  if not token then return end
  -- Its oldest come first in this list.
  if not scheduled and redis.call('LREM', key.jobs_waiting(token), 1, job) == 1 then return end
  if redis.call('HGET', key.subscriber(token), 'probe') == job then redis.call('HDEL', key.subscriber(token), 'probe') end
  bring_back(token, 1)
end
