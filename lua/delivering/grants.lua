--[[
Grants: a grant is a job that acquire assigns to a worker, under a lease. Changes that one command can write for all
grants of a script call are collected first. `store` writes them.
]]
local batches = include('delivering/batches')
local choosing = include('delivering/choosing')
local cutting = include('delivering/cutting')
local drop_notices = include('delivering/drop_notices')
local jobs = include('delivering/jobs')
local lane_entry = include('delivering/lane_entry')
local lanes = include('delivering/lanes')
local leases = include('delivering/leases')
local open_batches = include('delivering/open_batches')
local shares = include('delivering/shares')
local uids = include('store/uids')
local grants = {}

-- Fields of a subscriber's hash that a delivery needs, in the order in which acquire returns their values. They come
-- from DELIVERY_FIELDS in src/store/contracts/delivering.ts.
local DELIVERY_FIELDS = include('store/delivery_fields')

-- Maximum events and bytes in the reply of one script call, so that the call does not block Redis for long. The last
-- batch in the reply may exceed them.
local MAX_REPLY_EVENTS = 5000
local MAX_REPLY_BYTES = 1000000

-- Makes the table that collects the grants of one script call. A grant is a job that a worker gets. Fields:
--   uids         the generator of UIDs (uids.lua) for batches that are cut (parts.lua)
--   choice       the state of the search for jobs (choosing.lua)
--   list         the grants
--   reply_items  the items of the reply: the job and the events of each grant. The first item, which describes all
--                grants, is filled in at the end
--   events       the number of events in the reply
--   bytes        the size of these events
--   unleased     the grants whose workers need a new lease
--   token_of     for each worker that begins a delivery: the subscriber's token
--   subscribers  by token: true for each subscriber of a granted batch
function grants.begin(choice, uid_seed)
  return {
    uids = uids.begin(uid_seed), choice = choice, list = {}, reply_items = { '' }, events = 0, bytes = 0,
    unleased = {}, token_of = {}, subscribers = {},
  }
end

local function is_full(given)
  return given.choice.is_exhausted or given.events >= MAX_REPLY_EVENTS or given.bytes >= MAX_REPLY_BYTES
end

-- Returns what the reply says of a batch: the subscriber, the time of creation, the number of attempts, the number of
-- events, and the number of reply items that contain the events. One item can have several events (pieces.lua).
local function describe(given, start, count, piece_count)
  given.events = given.events + count
  return { start[1], start[2], start[3], count, piece_count }
end

local function add_grant(given, worker, job, lease)
  local grant = { worker, lease }
  given.list[#given.list + 1] = grant
  given.reply_items[#given.reply_items + 1] = job
  if not lease then given.unleased[#given.unleased + 1] = grant end
  return grant
end

-- Adds the events of a batch to the reply, and counts the attempt. If the batch is too large for one delivery, its
-- first events become a new batch, which the worker gets instead. If the subscriber has left, adds no events: the
-- worker gets the batch only to delete it.
local function add_batch(call, given, grant, worker, bid, start)
  local lane = lane_entry.read(call, given.choice, start[1])
  local count, piece_count = 0, 0
  if lane.callback then
    bid, count, piece_count = cutting.add_events(call, given, worker, bid, start, lane)
  else
    count = batches.count_events(call, bid)
  end
  start[3] = string.format('%d', start[3] + 1)
  redis.call('LSET', call.keys.batch(bid), 2, start[3])
  grant[3] = describe(given, start, count, piece_count)
  grant[4] = drop_notices.give(call, start[1], bid)
end

-- Gives the worker the next job that can run. If the job is a delivery, also closes its batch to new events and counts
-- the attempt. Does nothing if no job can run, or if the reply is full.
function grants.give_next(call, given, worker)
  if is_full(given) then return end
  local job, bid, start = choosing.take_next(call, given.choice, worker)
  if not job then return end
  local grant = add_grant(given, worker, job, false)
  if not bid then return end
  local token = start[1]
  given.token_of[worker] = token
  given.subscribers[token] = true
  if open_batches.bid_of(call, token) == bid then open_batches.close(call, token, bid) end
  add_batch(call, given, grant, worker, bid, start)
end

-- Gives the worker the job that it already holds. The worker asks again only because the reply with this job was lost.
-- `lease` is the number of the worker's lease, or nil if the lease has expired.
function grants.give_again(call, given, worker, job, lease)
  local grant = add_grant(given, worker, job, tonumber(lease) or false)
  local bid = jobs.batch_of(job)
  local start = bid and choosing.start_of(call, bid)
  if not start then return end
  local token = start[1]
  given.subscribers[token] = true
  grant[3] = describe(given, start, cutting.add_all_events(call, given, bid, start))
  grant[4] = drop_notices.carried_by(call, token, bid)
end

-- Takes a job back from its worker after an error. Otherwise each later call would try to give the worker the job
-- again, and fail in the same way. The job is in no list until the sweep puts it back into the queue.
function grants.take_back(call, given, worker)
  redis.call('DEL', call.keys.jobs_pending(given.choice.q, worker))
  given.token_of[worker] = nil
  lanes.leave(call, worker)
  -- If this call began the delivery, the delivery is not stored yet, so `lanes.leave` does not end it. But the worker
  -- may count in a share (one of the limits in shares.lua), and must no longer count there.
  shares.leave(call, { worker })
end

local function describe_subscribers(call, given)
  local described = {}
  for token in pairs(given.subscribers) do
    local lane = lane_entry.read(call, given.choice, token)
    if lane.callback then
      local subscriber, now = call.keys.subscriber(token), string.format('%d', call.now_ms)
      redis.call('HSET', subscriber, 'last_attempted_at', now)
      described[#described + 1] = token
      described[#described + 1] = redis.call('HMGET', subscriber, unpack(DELIVERY_FIELDS))
    end
  end
  return described
end

-- Stores three things: the new leases, the workers that have a job now, and the subscriber to which each delivers.
-- Returns the part of the reply about the subscribers: token, list of the values of DELIVERY_FIELDS, token, …
-- Subscribers that have left are not in it.
function grants.store(call, given)
  if #given.list == 0 then return {} end
  local keys, unleased = call.keys, given.unleased
  if #unleased > 0 then
    local first, numbers, holders = leases.draw(call, #unleased), {}, {}
    for i, grant in ipairs(unleased) do
      grant[2], holders[i] = first + i - 1, grant[1]
      numbers[2 * i - 1], numbers[2 * i] = grant[1], string.format('%d', grant[2])
    end
    redis.call('HSET', keys.leases(), unpack(numbers))
    redis.call('SADD', keys.jobs_pending_index(given.choice.q), unpack(holders))
  end
  lanes.join(call, given.token_of)
  return describe_subscribers(call, given)
end

return grants
