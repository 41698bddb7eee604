--[[
Leases: a worker holds its job under a numbered lease. The worker's heartbeat renews the lease.

The number of a lease is the time (µs) at which it was given, or one more than the newest number, if that is higher. If
Redis's clock is set back, the numbers are *ahead* of it: later than the time that it shows. The key `leases:ahead` says
by how much (µs) the newest number was ahead when it was given. From then on the numbers grow at half the pace of the
clock. So they still tell roughly how old a lease is, and the clock catches up with them; then the key expires. The
numbers of outbox entries stay ahead for good (outbox_numbers.lua). Those of leases may not, because lists of deliveries
show them as times.
]]
local leases = {}

-- Lease numbers are times of Redis's clock (µs). If the newest number is ahead of the clock by more than this, the
-- clock was set back. Smaller differences are normal: if a script call gives several leases, each number is higher by
-- one than the number before, and clocks get small corrections.
local MAX_AHEAD_US = 1000000

-- Returns the number of the newest lease, or 0 if no lease has been given yet.
function leases.last(call)
  call.last_lease = call.last_lease or tonumber(redis.call('GET', call.keys.leases_last())) or 0
  return call.last_lease
end

-- Returns how far (µs) the numbers of new leases, which are times, must be ahead of Redis's clock: 0 unless the clock
-- was set back. `newest_us` is how far the number of the newest lease is ahead of the clock now.
local function ahead_now(call, newest_us)
  if newest_us <= 0 then return 0 end
  local before_us = tonumber(redis.call('GET', call.keys.leases_ahead()))
  if not before_us then return newest_us > MAX_AHEAD_US and newest_us or 0 end
  -- The numbers of leases grow at half the pace of the clock, so that the clock catches up with them. Example: when the
  -- newest lease was given, its number was 10 s ahead of the clock (`before_us`). Now, 4 s later, this number is 6 s
  -- ahead (`newest_us`). The next number is 8 s ahead, the mean, and so 2 s higher than the newest one. If the clock
  -- was set back again, `newest_us` is larger than the mean. It is then the result, because the numbers must not fall.
  return math.max(newest_us, math.floor((newest_us + before_us) / 2))
end

-- Returns the time (µs) from which new leases get their numbers. Usually it is the time of Redis's clock. If the clock
-- was set back, it is a later time, so that the numbers still grow.
function leases.now(call)
  call.leases_ahead = call.leases_ahead or ahead_now(call, leases.last(call) - call.now_us)
  return call.now_us + call.leases_ahead
end

-- Draws the numbers of `count` new leases. Returns the first number. Each further number is higher by one.
function leases.draw(call, count)
  local first = math.max(leases.last(call) + 1, leases.now(call))
  call.last_lease = first + count - 1
  redis.call('SET', call.keys.leases_last(), string.format('%d', call.last_lease))
  if call.leases_ahead > 0 then
    local ahead, expires_ms = call.leases_ahead, math.ceil((call.last_lease - call.now_us) / 1000)
    redis.call('SET', call.keys.leases_ahead(), string.format('%d', ahead), 'PX', string.format('%d', expires_ms))
  end
  return first
end

-- Returns true if a lease has expired: the worker's last sign of life (`heard_ms`) is missing, or older than `lease_ms`
-- by the clock of Redis.
function leases.has_expired(call, heard_ms, lease_ms)
  heard_ms = tonumber(heard_ms)
  return not heard_ms or call.now_ms - heard_ms > lease_ms
end

-- Returns true if a worker is dead: its lease has expired, or it never gave a sign of life.
function leases.is_worker_dead(call, worker, lease_ms)
  return leases.has_expired(call, redis.call('HGET', call.keys.workers(), worker), lease_ms)
end

-- Returns the number of the lease of each of these workers, as a table by worker. Expired leases are left out.
function leases.of(call, workers, lease_ms)
  local found = {}
  if #workers == 0 then return found end
  local numbers = redis.call('HMGET', call.keys.leases(), unpack(workers))
  local heard = redis.call('HMGET', call.keys.workers(), unpack(workers))
  for i, worker in ipairs(workers) do
    if numbers[i] and not leases.has_expired(call, heard[i], lease_ms) then found[worker] = numbers[i] end
  end
  return found
end

-- Takes a job from its worker: removes the job from the worker's pending list in Redis, and the worker from `lease_of`,
-- a table that `leases.of` returned. The caller must still delete the lease in Redis. Returns false if the worker does
-- not hold the job: its lease has expired, another worker has the job, or an earlier call has taken it.
function leases.take_job(call, q, worker, job, lease, lease_of)
  if lease_of[worker] ~= lease then return false end
  if redis.call('LREM', call.keys.jobs_pending(q, worker), 1, job) == 0 then return false end
  lease_of[worker] = nil
  return true
end

-- Returns true if the worker holds the job under its lease. `held` has the fields of `heldJob` in
-- src/store/contracts/delivering.ts: q, worker, job, lease and lease_ms.
function leases.holds(call, held)
  if leases.of(call, { held.worker }, held.lease_ms)[held.worker] ~= held.lease then return false end
  return redis.call('LINDEX', call.keys.jobs_pending(held.q, held.worker), 0) == held.job
end

-- Takes a job from its worker: removes the job from the worker's pending list, and deletes the worker's lease. Returns
-- false, and changes nothing, if the worker does not hold the job under its lease. `held` has the fields of `heldJob`
-- in src/store/contracts/delivering.ts.
function leases.take_job_and_lease(call, held)
  local worker, lease_of = held.worker, leases.of(call, { held.worker }, held.lease_ms)
  if not leases.take_job(call, held.q, worker, held.job, held.lease, lease_of) then return false end
  redis.call('HDEL', call.keys.leases(), worker)
  return true
end

-- Removes a worker from the sets and the hash of workers. Returns 1, or 0 if the hash did not have it.
function leases.forget_worker(call, worker)
  redis.call('SREM', call.keys.workers_main(), worker)
  redis.call('SREM', call.keys.workers_aux(), worker)
  -- This must be the last write. If Redis is killed and loses its last writes, the worker must still be in this hash,
  -- because scrub.lua searches it for dead workers, to give back their jobs.
  return redis.call('HDEL', call.keys.workers(), worker)
end

return leases
