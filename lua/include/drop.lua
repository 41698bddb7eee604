-- Dropping: deleting a batch that was not delivered, with its job.

-- The jobs that workers hold: their batches are being delivered right now, and are not dropped.
local function jobs_held()
  local held = {}
  for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index('main'))) do
    local job = redis.call('LINDEX', key.jobs_pending('main', worker), 0)
    if job then held[job] = true end
  end
  return held
end

-- Lists are searched from the end where the oldest are. A job that was not waiting aside may have been the one that brings
-- those back, so one takes its place.
local function drop_job(job, token)
  redis.call('SREM', key.jobs_index('main'), job)
  if redis.call('ZREM', key.jobs_scheduled('main'), job) == 0 then
    if token and redis.call('LREM', key.jobs_waiting(token), 1, job) == 1 then return end
    redis.call('LREM', key.jobs_instant('main'), -1, job)
  end
  if not token then return end
  if redis.call('HGET', key.subscriber(token), 'probe') == job then redis.call('HDEL', key.subscriber(token), 'probe') end
  bring_back(token, 1)
end
