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

-- Instant jobs are searched from the right, where the oldest are.
local function drop_job(job)
  redis.call('SREM', key.jobs_index('main'), job)
  if redis.call('ZREM', key.jobs_scheduled('main'), job) == 0 then
    redis.call('LREM', key.jobs_instant('main'), -1, job)
  end
end
