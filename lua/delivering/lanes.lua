--[[
Lanes: limit how many workers the deliveries of one subscriber may hold.

A lane may hold a quarter of the workers with its deliveries in flight, but at least one. A subscriber that fails, or
has never accepted a batch, is on trial: its lane has at most one delivery in flight, and none before `throttled_until`.

The spare workers of a thread ask for jobs while its other workers hang. A spare worker may begin a delivery only if the
lane of the delivery then holds at most a quarter of the workers that no other lane holds, or only this worker. So each
lane leaves three quarters of the workers that it finds free. Even if many lanes hang at once, some workers are left.

A share limits the workers that all subscribers of one kind may hold together: half of the workers for all that are slow
or have never accepted a batch, a quarter for all that fail, and a sixteenth for all joins. A delivery to such a
subscriber begins only if its share has room. So of eight workers or more, the shares leave at least an eighth free,
unless deliveries become late. The last quarter of the slow share is kept for lanes without a delivery in flight. If a
share has no room for a job, the job may wait in `shares:jobs:{share}`, where each lane has at most one job.
]]
local lanes = {}

-- The names of the shares, in the order in which acquire serves them. A share is the part of the workers that all
-- subscribers of one kind, such as all slow ones, may hold together. The loader of the scripts makes the module from
-- SHARES in src/store/job.ts.
lanes.SHARES = include('store/shares')
local PART_OF_WORKERS = { slow = 1 / 2, failing = 1 / 4, joins = 1 / 16 }
local PART_OF_LANE = 1 / 4
-- Maximum bytes of all deliveries of a subscriber that are in flight, if each is as large as the subscriber allows. A
-- worker process holds each twice: 24 deliveries of 16 MiB took 670 MB, and a process may have less.
local MAX_BYTES = 67108864
local PART_FOR_SINGLE = 1 / 4

-- Returns the Redis keys of all shares, as several return values. The function `key` makes the key of one share.
local function of_all(key)
  local names = {}
  for i, share in ipairs(lanes.SHARES) do names[i] = key(share) end
  return unpack(names)
end

-- Returns how many subscribers have exactly one worker in the slow share (the workers that deliver to slow or new
-- subscribers). This is counted once in a script call. Later in the call, lane_entry adds each subscriber that gets its
-- first delivery.
local function single_workers(call)
  if call.single_workers then return call.single_workers end
  local workers, held = redis.call('SMEMBERS', call.keys.share_workers('slow')), {}
  call.single_workers = 0
  for _, token in ipairs(redis.call('HMGET', call.keys.lanes_held(), unpack(workers))) do
    if token then
      held[token] = (held[token] or 0) + 1
    else
      -- `lanes_held` does not name the subscriber to which this worker delivers, because the worker got its delivery in
      -- this script call. The subscriber is counted as having no other worker.
      call.single_workers = call.single_workers + 1
    end
  end
  for _, workers_of_lane in pairs(held) do
    if workers_of_lane == 1 then call.single_workers = call.single_workers + 1 end
  end
  return call.single_workers
end

-- Returns how many more deliveries may enter a share; 0 or less means none. `holds_some` is true if the subscriber of
-- the next delivery has others in flight.
--
-- The slow share keeps its last quarter (`kept`) for subscribers without a delivery in flight, so that they do not wait
-- for subscribers that hang. Example: of 64 workers, the share has 32 places, and keeps 8 of them.
--   - A subscriber with deliveries in flight may enter while fewer than 24 places are taken.
--   - A subscriber without any may enter while fewer than 32 are taken. Late deliveries can fill all 32, because they
--     enter even a full share (late.lua). So it may also enter while fewer than 8 subscribers have a single worker in
--     the share.
function lanes.share_room(call, share, holds_some)
  local part = math.max(1, math.floor(redis.call('SCARD', call.keys.workers_main()) * PART_OF_WORKERS[share]))
  local room = part - redis.call('SCARD', call.keys.share_workers(share))
  if share ~= 'slow' then return room end
  local kept = math.floor(part * PART_FOR_SINGLE)
  if holds_some then return room - kept end
  return room > 0 and room or math.max(room, kept > 0 and kept - single_workers(call) or 0)
end

-- Returns the number of living workers that deliver. It is read once in a script call.
local function live_workers(call)
  call.live_workers = call.live_workers or redis.call('SCARD', call.keys.workers_main())
  return call.live_workers
end

-- Returns how many deliveries a subscriber may have in flight, if it is not on trial. `own_limit` and `max_bytes` are
-- what the subscriber has set, or false; without `own_limit`, `args.lane_limit` applies. The result is at most
-- `args.lane_limit_max`, at most a quarter of the living workers, and at most so many that they have MAX_BYTES
-- together, but at least 1.
function lanes.width(call, own_limit, max_bytes, args)
  local part = math.min(live_workers(call) * PART_OF_LANE, MAX_BYTES / (tonumber(max_bytes) or 1))
  return math.min(tonumber(own_limit) or args.lane_limit, args.lane_limit_max, math.max(1, math.floor(part)))
end

-- Returns how many deliveries a subscriber may have in flight if a spare worker begins one of them: a quarter of the
-- workers that no other subscriber holds, but at least 1. Example: of 86 workers, other subscribers hold 66. The result
-- is 5, a quarter of 20.
--
-- `in_flight` is the number of the subscriber's deliveries in flight. `entered` is the number of all deliveries that
-- this script call has begun but not yet stored in `lanes_held`.
function lanes.spare_width(call, in_flight, entered)
  local others = redis.call('HLEN', call.keys.lanes_held()) + entered - in_flight
  return math.max(1, math.floor((live_workers(call) - others) * PART_OF_LANE))
end

-- Adds workers to the set of the workers that deliver.
function lanes.add_workers(call, workers)
  redis.call('SADD', call.keys.workers_main(), unpack(workers))
  call.live_workers = nil
end

-- Returns, for each share, the number of jobs that wait because the share is full. Usually no job waits, and the table
-- is empty.
function lanes.share_jobs(call)
  local share_jobs, counts = call.keys.share_jobs, {}
  if redis.call('EXISTS', of_all(share_jobs)) == 0 then return counts end
  for _, share in ipairs(lanes.SHARES) do counts[share] = redis.call('LLEN', share_jobs(share)) end
  return counts
end

-- Returns how many jobs of a queue a worker of this `kind` can acquire now. A quarantine acquires only the jobs of
-- suspects, and all other workers only the other jobs. `waiting` is the result of `lanes.share_jobs`, if the caller has
-- it: it may lack jobs for which a share has no room.
function lanes.count_ready(call, q, kind, waiting)
  if kind == 'quarantine' then return redis.call('LLEN', call.keys.jobs_suspect()) end
  local ready = redis.call('LLEN', call.keys.jobs_instant(q))
  if q ~= 'main' then return ready end
  for share, count in pairs(waiting or lanes.share_jobs(call)) do
    if count > 0 then ready = ready + math.max(0, math.min(count, lanes.share_room(call, share))) end
  end
  return ready
end

-- Counts a worker in the slow share, because its delivery takes longer than a second. The share may then exceed its
-- limit. Does nothing if the worker counts in a share already.
function lanes.enter_slow_share(call, worker)
  for _, share in ipairs(lanes.SHARES) do
    if redis.call('SISMEMBER', call.keys.share_workers(share), worker) == 1 then return end
  end
  redis.call('SADD', call.keys.share_workers('slow'), worker)
end

-- Removes workers from the shares in which they count. Returns how many of these workers were in a share.
function lanes.leave_shares(call, workers)
  local keys, left = call.keys, 0
  -- Usually all shares are empty. A single command shows this.
  if redis.call('EXISTS', of_all(keys.share_workers)) == 0 then return 0 end
  for _, share in ipairs(lanes.SHARES) do
    local had = redis.call('SREM', keys.share_workers(share), unpack(workers))
    if had > 0 and redis.call('EXISTS', keys.share_jobs(share)) == 1 then call.wakes.main = true end
    left = left + had
  end
  return left
end

-- Returns the lane of each of these workers, in the same order: the token of its subscriber, or false without a lane.
function lanes.of(call, workers)
  return redis.call('HMGET', call.keys.lanes_held(), unpack(workers))
end

-- Removes workers from their lanes and shares. `tokens` has the lane of each worker, or false. Returns, for each lane,
-- how many workers have left it.
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

-- Removes a worker from its lane and share. Returns the subscriber's token, or nothing if the worker had no lane.
function lanes.leave(call, worker)
  return next(lanes.leave_all(call, { worker }, lanes.of(call, { worker })))
end

-- Stores which workers deliver to which subscribers. `token_of` has the subscriber's token for each worker.
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
