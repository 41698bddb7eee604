--[[
Lanes: what one subscriber may hold of the workers.

A lane lets so many deliveries be in flight: one at a time while its subscriber is on trial (it fails, or
never took a batch), and none before `throttled_until`.

The subscribers that fail, and those that are slow or may be, have a share of the workers each, which all of
their deliveries together do not exceed: a quarter of the workers is left to those that answer, whatever the
others do. A job for which its share has no room waits in `shares:jobs:{share}`, one of each lane.
]]
local lanes = {}

lanes.SHARES = { 'slow', 'failing' }
local PART_OF_WORKERS = { slow = 1 / 2, failing = 1 / 4 }

-- How many more deliveries a share takes.
function lanes.share_room(call, share)
  local part = math.floor(redis.call('SCARD', call.keys.workers_main()) * PART_OF_WORKERS[share])
  return math.max(1, part) - redis.call('SCARD', call.keys.share_workers(share))
end

-- How many deliveries a lane lets be in flight while it is not on trial. `own_limit`: what its subscriber
-- asked for, if it did.
function lanes.width(own_limit, limit, limit_max)
  return math.min(tonumber(own_limit) or limit, limit_max)
end

-- The number of jobs that wait for a place in each share. Usually none do, which one command shows.
function lanes.share_jobs(call)
  local keys, counts = call.keys, { slow = 0, failing = 0 }
  if redis.call('EXISTS', keys.share_jobs('slow'), keys.share_jobs('failing')) == 0 then return counts end
  for _, share in ipairs(lanes.SHARES) do counts[share] = redis.call('LLEN', keys.share_jobs(share)) end
  return counts
end

-- The number of jobs of a queue that a worker could acquire now.
function lanes.count_ready(call, q)
  local ready = redis.call('LLEN', call.keys.jobs_instant(q))
  if q ~= 'main' then return ready end
  for share, waiting in pairs(lanes.share_jobs(call)) do
    if waiting > 0 then ready = ready + math.max(0, math.min(waiting, lanes.share_room(call, share))) end
  end
  return ready
end

-- Returns how many of these workers had a place in a share.
function lanes.leave_shares(call, workers)
  local keys, left = call.keys, 0
  -- Usually no delivery is in a share, which one command shows.
  if redis.call('EXISTS', keys.share_workers('slow'), keys.share_workers('failing')) == 0 then return 0 end
  for _, share in ipairs(lanes.SHARES) do
    local had = redis.call('SREM', keys.share_workers(share), unpack(workers))
    if had > 0 and redis.call('EXISTS', keys.share_jobs(share)) == 1 then call.wakes.main = true end
    left = left + had
  end
  return left
end

-- The lanes that these workers are in, in their order; false for a worker that is in none.
function lanes.of(call, workers)
  return redis.call('HMGET', call.keys.lanes_held(), unpack(workers))
end

-- These workers leave these lanes. Returns how many left each.
function lanes.leave_all(call, workers, tokens)
  local left = {}
  for _, token in ipairs(tokens) do
    if token then left[token] = (left[token] or 0) + 1 end
  end
  if next(left) then
    redis.call('HDEL', call.keys.lanes_held(), unpack(workers))
    lanes.leave_shares(call, workers)
  end
  for token, deliveries in pairs(left) do
    if redis.call('HINCRBY', call.keys.lanes_in_flight(), token, -deliveries) <= 0 then
      redis.call('HDEL', call.keys.lanes_in_flight(), token)
    end
  end
  return left
end

-- The worker leaves the lane that it is in. Returns the lane, or nothing.
function lanes.leave(call, worker)
  return next(lanes.leave_all(call, { worker }, lanes.of(call, { worker })))
end

-- Workers enter lanes: `token_of` has the lane of each.
function lanes.join(call, token_of)
  local held, joined = {}, {}
  for worker, token in pairs(token_of) do
    held[#held + 1] = worker
    held[#held + 1] = token
    joined[token] = (joined[token] or 0) + 1
  end
  if #held > 0 then redis.call('HSET', call.keys.lanes_held(), unpack(held)) end
  for token, deliveries in pairs(joined) do
    redis.call('HINCRBY', call.keys.lanes_in_flight(), token, deliveries)
  end
end

return lanes
