-- Takes the job out of the worker's hands. False if the worker does not hold it: it was scrubbed and is somebody
-- else's now, or this very call was applied before and its reply got lost.
local function take_from(q, worker, job)
  return redis.call('LREM', key.jobs_pending(q, worker), 1, job) == 1
end
