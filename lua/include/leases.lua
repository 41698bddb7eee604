-- Leases: a worker holds its job by a numbered lease, which its heartbeat renews.

-- Not heard of for longer than its lease, by Redis's clock, or never.
local function ran_out(heard, lease_ms)
  heard = tonumber(heard)
  return not heard or now - heard > lease_ms
end

local function is_dead(worker, lease_ms)
  return ran_out(redis.call('HGET', key.workers(), worker), lease_ms)
end

-- The numbers of the leases of these workers that have not run out, by worker.
local function leases_of(workers, lease_ms)
  local found = {}
  if #workers == 0 then return found end
  local leases = redis.call('HMGET', key.leases(), unpack(workers))
  local heard = redis.call('HMGET', key.workers(), unpack(workers))
  for i, worker in ipairs(workers) do
    if leases[i] and not ran_out(heard[i], lease_ms) then found[worker] = leases[i] end
  end
  return found
end

-- Takes the job out of the worker's hands; its lease is the caller's to delete. False if it is not in them any more: its lease
-- has run out, or the job is somebody else's by now, or this very call was applied before and its reply got lost.
local function take_from(q, worker, job, lease, lease_of)
  if lease_of[worker] ~= lease or redis.call('LREM', key.jobs_pending(q, worker), 1, job) == 0 then return false end
  lease_of[worker] = nil
  return true
end
