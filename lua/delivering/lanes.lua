--[[
Lanes: a lane is what a subscriber has in flight: its deliveries, and the workers that make them. Functions below limit
how wide it may be (`width`, `spare_width`), so that some workers are left even if many lanes hang at once.
]]
local live_workers = include('delivering/live_workers')
local shares = include('delivering/shares')
local lanes = {}

local PART_OF_LANE = 1 / 4
-- Maximum bytes of all deliveries in flight to one subscriber. Each delivery counts as the subscriber's max_bytes, even
-- if its body is smaller. Without this maximum, a worker process could need too much memory. It holds each body twice:
-- 24 bodies of 16 MiB took 670 MB.
local MAX_BYTES = 67108864

-- Returns how many deliveries a subscriber may have in flight, unless it fails or is new. It is the smallest of these
-- numbers, but at least 1:
--   - what the subscriber has set (`own_limit`), or `args.lane_limit` if `own_limit` is false
--   - `args.lane_limit_max`
--   - a quarter of the live workers
--   - how many deliveries of `max_bytes` fit into MAX_BYTES; no limit if `max_bytes` is false
function lanes.width(call, own_limit, max_bytes, args)
  local part = math.min(live_workers.count(call) * PART_OF_LANE, MAX_BYTES / (tonumber(max_bytes) or 1))
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
  return math.max(1, math.floor((live_workers.count(call) - others) * PART_OF_LANE))
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
    shares.leave(call, workers)
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
