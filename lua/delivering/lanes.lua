--[[
Lanes: limit how many workers the deliveries of one subscriber may hold.

A lane is what a subscriber has in flight: its deliveries, and the workers that make them. Functions below limit how
wide it may be (`width`, `spare_width`), so that some workers are left even if many lanes hang at once.

A *share* is the part of the regular workers that all subscribers of one kind may hold together: those that are slow or
new (`slow`), those that fail (`failing`), and the joins (`joins`). If each thread has five regular workers or more, the
shares leave at least an eighth of them free. Running deliveries that become slow may take more. If a share is full, a
job may wait for it in `shares:jobs:{share}`, where each lane has at most one job.
]]
local lanes = {}

-- The names of the shares, from SHARES in src/store/job.ts. acquire serves the jobs that wait for a share in this
-- order.
lanes.SHARES = include('store/shares')
-- The part of the live workers that is regular: a thread has a spare worker for every three regular ones
-- (thread_workers.ts). The shares are parts of the regular workers only. If they were parts of all live workers, the
-- shares together could hold every regular worker, and other deliveries would have only spare workers.
local REGULAR_PART = 3 / 4
local PART_OF_REGULAR = { slow = 1 / 2, failing = 1 / 4, joins = 1 / 16 }
local PART_OF_LANE = 1 / 4
-- Maximum bytes of all deliveries in flight to one subscriber. Each delivery counts as the subscriber's max_bytes, even
-- if its body is smaller. Without this maximum, a worker process could need too much memory. It holds each body twice:
-- 24 bodies of 16 MiB took 670 MB.
local MAX_BYTES = 67108864
local PART_KEPT_OF_SLOW = 1 / 4

local function of_all(key)
  local names = {}
  for i, share in ipairs(lanes.SHARES) do names[i] = key(share) end
  return unpack(names)
end

local function live_workers(call)
  call.live_workers = call.live_workers or redis.call('SCARD', call.keys.workers_main())
  return call.live_workers
end

-- Returns how many subscribers hold exactly one worker of the share `slow` (the workers for slow and new subscribers).
-- The number is computed once in a script call. After that, `enter_share` (lane_entry.lua) adds 1 whenever a subscriber
-- without deliveries in flight gets a worker of the share. Nothing is subtracted when the subscriber gets a second
-- worker, so the number may be too high. Then `share_room` permits fewer deliveries than it could.
local function single_workers(call)
  if call.single_workers then return call.single_workers end
  local workers, counts = redis.call('SMEMBERS', call.keys.share_workers('slow')), {}
  call.single_workers = 0
  for _, token in ipairs(lanes.subscribers_of(call, workers)) do
    if token then
      counts[token] = (counts[token] or 0) + 1
    else
      -- This worker's delivery began in this script call, so its subscriber is not stored yet. The worker is counted as
      -- if its subscriber had no other worker in the share.
      call.single_workers = call.single_workers + 1
    end
  end
  for _, workers_of_lane in pairs(counts) do
    if workers_of_lane == 1 then call.single_workers = call.single_workers + 1 end
  end
  return call.single_workers
end

-- Returns how many more workers a share may use; 0 or less means none. `holds_some` is true if the subscriber that
-- wants a worker already has deliveries in flight.
--
-- A quarter of the share `slow` is kept for subscribers without deliveries in flight. Otherwise subscribers that hang
-- could take the whole share. Example: the share is 32 workers, and 8 of them are kept. A subscriber without deliveries
-- in flight gets a worker while fewer than 32 are in use, any other subscriber only while fewer than 24 are.
--
-- A running delivery that becomes slow enters the share even if it is full (slow_deliveries.lua). Such deliveries could
-- use up the 8 kept workers. So even if the share is full, a subscriber without deliveries in flight gets a worker, as
-- long as fewer than 8 subscribers hold exactly one worker of the share.
function lanes.share_room(call, share, holds_some)
  local part = math.max(1, math.floor(live_workers(call) * REGULAR_PART * PART_OF_REGULAR[share]))
  local room = part - redis.call('SCARD', call.keys.share_workers(share))
  if share ~= 'slow' then return room end
  local kept = math.floor(part * PART_KEPT_OF_SLOW)
  if holds_some then return room - kept end
  if room > 0 then return room end
  return kept - single_workers(call)
end

-- Returns how many deliveries a subscriber may have in flight, unless it fails or is new. It is the smallest of these
-- numbers, but at least 1:
--   - what the subscriber has set (`own_limit`), or `args.lane_limit` if `own_limit` is false
--   - `args.lane_limit_max`
--   - a quarter of the living workers
--   - how many deliveries of `max_bytes` fit into MAX_BYTES; no limit if `max_bytes` is false
function lanes.width(call, own_limit, max_bytes, args)
  local part = math.min(live_workers(call) * PART_OF_LANE, MAX_BYTES / (tonumber(max_bytes) or 1))
  return math.min(tonumber(own_limit) or args.lane_limit, args.lane_limit_max, math.max(1, math.floor(part)))
end

-- Returns the limit for spare workers: a spare worker begins a delivery to a subscriber only if the subscriber has
-- fewer deliveries in flight than this limit. Spare workers help while all regular workers of a thread are busy with
-- long jobs. Without the limit, a few subscribers that hang could use up the spare workers too. The limit is a quarter
-- of the workers that do not deliver to other subscribers, but at least 1.
--
-- `in_flight` is the number of the subscriber's deliveries in flight. `entered` counts the deliveries to all
-- subscribers that this script call has begun but not yet stored in `lanes_held`.
function lanes.spare_width(call, in_flight, entered)
  local others = redis.call('HLEN', call.keys.lanes_held()) + entered - in_flight
  return math.max(1, math.floor((live_workers(call) - others) * PART_OF_LANE))
end

function lanes.add_workers(call, workers)
  redis.call('SADD', call.keys.workers_main(), unpack(workers))
  call.live_workers = nil
end

-- Returns, for each share, how many jobs wait because the share is full. The table is empty if no job waits.
function lanes.share_jobs(call)
  local share_jobs, counts = call.keys.share_jobs, {}
  if redis.call('EXISTS', of_all(share_jobs)) == 0 then return counts end
  for _, share in ipairs(lanes.SHARES) do counts[share] = redis.call('LLEN', share_jobs(share)) end
  return counts
end

-- Returns how many jobs of a queue a worker of this `kind` can take now. A `quarantine` takes only the jobs of batches
-- that may have killed workers, and no other worker takes these. `waiting` is a result of `lanes.share_jobs`, which is
-- called if `waiting` is missing.
function lanes.count_ready(call, q, kind, waiting)
  if kind == 'quarantine' then return redis.call('LLEN', call.keys.jobs_suspect()) end
  local ready = redis.call('LLEN', call.keys.jobs_instant(q))
  if q ~= 'main' then return ready end
  for share, count in pairs(waiting or lanes.share_jobs(call)) do
    if count > 0 then ready = ready + math.max(0, math.min(count, lanes.share_room(call, share))) end
  end
  return ready
end

-- Call this when the delivery of `worker` has become slow. Adds the worker to the share `slow`, even if the share is
-- full, because the delivery already runs. Does nothing if the worker is in a share already.
function lanes.enter_slow_share(call, worker)
  for _, share in ipairs(lanes.SHARES) do
    if redis.call('SISMEMBER', call.keys.share_workers(share), worker) == 1 then return end
  end
  redis.call('SADD', call.keys.share_workers('slow'), worker)
end

-- Removes `workers` from all shares. A share is a limited set of workers, such as those that deliver to slow or new
-- subscribers. Returns how many of `workers` were in a share.
function lanes.leave_shares(call, workers)
  local keys, left = call.keys, 0
  -- Usually all shares are empty. One EXISTS command finds this out, and saves an SREM for each share.
  if redis.call('EXISTS', of_all(keys.share_workers)) == 0 then return 0 end
  for _, share in ipairs(lanes.SHARES) do
    local had = redis.call('SREM', keys.share_workers(share), unpack(workers))
    if had > 0 and redis.call('EXISTS', keys.share_jobs(share)) == 1 then call.wakes.main = true end
    left = left + had
  end
  return left
end

-- Returns the token of the subscriber to which each of these workers delivers, in the same order. Returns false for a
-- worker that does not deliver.
function lanes.subscribers_of(call, workers)
  return redis.call('HMGET', call.keys.lanes_held(), unpack(workers))
end

-- Ends the deliveries of these workers, so that they no longer count against the limit of one subscriber, or of one
-- kind of subscribers (such as all slow ones). `tokens` has, for each worker, the token of its subscriber, or false.
-- Returns, by token, how many deliveries have ended.
function lanes.leave_all(call, workers, tokens)
  local ended = {}
  for _, token in ipairs(tokens) do
    if token then ended[token] = (ended[token] or 0) + 1 end
  end
  if next(ended) then
    redis.call('HDEL', call.keys.lanes_held(), unpack(workers))
    lanes.leave_shares(call, workers)
  end
  for token, deliveries in pairs(ended) do
    if redis.call('HINCRBY', call.keys.lanes_in_flight(), token, -deliveries) <= 0 then
      redis.call('HDEL', call.keys.lanes_in_flight(), token)
    end
  end
  return ended
end

-- Ends the delivery of one worker, as `leave_all` does for several. The caller decides what becomes of its job and its
-- batch. Returns the token of its subscriber, or nothing if the worker had no delivery in flight.
function lanes.leave(call, worker)
  return next(lanes.leave_all(call, { worker }, lanes.subscribers_of(call, { worker })))
end

-- Stores which workers deliver to which subscribers. `token_of` has the subscriber's token for each worker.
function lanes.join(call, token_of)
  local fields, joined = {}, {}
  for worker, token in pairs(token_of) do
    fields[#fields + 1] = worker
    fields[#fields + 1] = token
    joined[token] = (joined[token] or 0) + 1
  end
  if #fields > 0 then redis.call('HSET', call.keys.lanes_held(), unpack(fields)) end
  for token, deliveries in pairs(joined) do
    redis.call('HINCRBY', call.keys.lanes_in_flight(), token, deliveries)
  end
end

return lanes
