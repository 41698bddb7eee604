-- Lanes: what one subscriber may hold of the workers. A lane lets so many deliveries be in flight; one at a time while its
-- subscriber is on trial (it fails, or never took a batch), and none before `throttled_until`.
--
-- Those that fail, and those that are slow or may be, have a share of the workers each, which all of their deliveries together
-- do not exceed: a quarter of the workers is left to those that answer, whatever the others do. A job for which its share has
-- no room waits in `shares:jobs:{share}`, one of each lane.
local SHARES = { 'slow', 'failing' }
local SHARE = { slow = 1 / 2, failing = 1 / 4 }

local function share_room(share)
  local part = math.floor(redis.call('SCARD', key.workers_main()) * SHARE[share])
  return math.max(1, part) - redis.call('SCARD', key.share_workers(share))
end

-- How many deliveries a lane lets be in flight while it is not on trial. limit: unless its subscriber asked for another number,
-- of limit_max at most.
local function lane_width(own_limit, limit, limit_max)
  return math.min(tonumber(own_limit) or limit, limit_max)
end

-- How many jobs of a queue a worker could get now.
local function count_ready(q)
  local ready = redis.call('LLEN', key.jobs_instant(q))
  if q ~= 'main' then return ready end
  for _, share in ipairs(SHARES) do
    local jobs = redis.call('LLEN', key.share_jobs(share))
    if jobs > 0 then ready = ready + math.max(0, math.min(jobs, share_room(share))) end
  end
  return ready
end

-- How many of these workers had a place in a share.
local function leave_shares(workers)
  local left = 0
  for _, share in ipairs(SHARES) do
    local had = redis.call('SREM', key.share_workers(share), unpack(workers))
    if had > 0 and redis.call('EXISTS', key.share_jobs(share)) == 1 then wakes.main = true end
    left = left + had
  end
  return left
end

-- The lanes that these workers are in, false for who is in none.
local function lanes_of(workers)
  return redis.call('HMGET', key.lanes_held(), unpack(workers))
end

-- These workers leave these lanes. Answers how many left each.
local function leave_lanes(workers, lanes)
  local left = {}
  for _, token in ipairs(lanes) do
    if token then left[token] = (left[token] or 0) + 1 end
  end
  if next(left) then
    redis.call('HDEL', key.lanes_held(), unpack(workers))
    leave_shares(workers)
  end
  for token, deliveries in pairs(left) do
    if redis.call('HINCRBY', key.lanes_in_flight(), token, -deliveries) <= 0 then
      redis.call('HDEL', key.lanes_in_flight(), token)
    end
  end
  return left
end

-- The lane that the worker's job was in, which it leaves.
local function leave_lane(worker)
  return next(leave_lanes({ worker }, lanes_of({ worker })))
end
