--[[
Grants: the jobs that one call of acquire assigns to workers, under a lease each. What can be written to Redis
once for all grants is collected first, and `settle` writes it.
]]
local batches = include('batches')
local choosing = include('choosing')
local drop_notices = include('drop_notices')
local jobs = include('jobs')
local lane_entry = include('lane_entry')
local lanes = include('lanes')
local open_batches = include('open_batches')
local grants = {}

-- Maximum events and bytes of one call. They bound the reply and the time that the call blocks Redis. The
-- last batch may exceed them.
local MAX_EVENTS = 5000
local MAX_BYTES = 1000000

-- Lua's buffer for joining texts. Longer texts are copied several times while they are joined: batches in one
-- piece took up to three times as long, and one of 260 MB blocked Redis for 5 s.
local PIECE_BYTES = 8192
local OPENING_BRACE = 123

-- Makes the table to which the grants of one call are added:
--   list         the grants
--   pieces       the reply of acquire. The first piece is set last, by acquire: it describes the grants. The
--                others are the jobs and events of the grants.
--   events       how many events the reply has; `bytes`: their size
--   unleased     the grants that `settle` gives a new lease
--   holders      the workers that got a new job
--   lane_of      for each worker that entered a lane: the subscriber whose lane it is
--   subscribers  for each subscriber of a granted batch: true if a new attempt begins, false if a job is only
--                given once more
--   open_of      the open batch of a subscriber, or false if it has none; only for those looked up so far
function grants.begin(choice, reader)
  return {
    choice = choice, reader = reader, list = {}, pieces = { '' }, events = 0, bytes = 0,
    unleased = {}, holders = {}, lane_of = {}, subscribers = {}, open_of = {},
  }
end

local function is_full(given)
  return given.choice.is_exhausted or given.events >= MAX_EVENTS or given.bytes >= MAX_BYTES
end

local function add_piece(given, list, first, last, size)
  given.pieces[#given.pieces + 1] = first == last and list[first] or table.concat(list, ',', first, last)
  given.bytes = given.bytes + size
end

-- Adds the events from `first` to `last` to the reply, joined with commas. Returns the number of pieces. An
-- event that is not JSON (from the Ruby Routemaster or schema 1) is a piece of its own. The worker
-- recognises such an event by its first byte.
local function add_events(given, list, first, last)
  local before, from, size, is_open = #given.pieces, first, 0, false
  for i = first, last do
    local event = list[i]
    local is_json = event:byte() == OPENING_BRACE
    if i > from and not (is_json and is_open and size + #event <= PIECE_BYTES) then
      add_piece(given, list, from, i - 1, size)
      from, size = i, 0
    end
    is_open = is_json
    size = size + #event + 1
  end
  if from <= last then add_piece(given, list, from, last, size) end
  return #given.pieces - before
end

-- Adds all events of a batch to the reply. Returns the description of the batch: subscriber, time of
-- creation, attempts, number of events, number of pieces. `start` holds the first items of the batch's list.
local function add_batch(call, given, bid, start)
  local list = start
  if #start == choosing.START then list = redis.call('LRANGE', call.keys.batch(bid), 0, -1) end
  local count = #list - batches.HEADER
  given.events = given.events + count
  return { start[1], start[2], start[3], count, add_events(given, list, batches.HEADER + 1, #list) }
end

-- Closes the batch if it is the open batch of its subscriber. Which batch is open is read once for each
-- subscriber.
local function close_batch(call, given, token, bid)
  local open_of = given.open_of
  if open_of[token] == nil then open_of[token] = open_batches.bid_of(call, token) end
  if open_of[token] == bid then open_batches.close_open(call, token, bid) end
end

local function add_grant(given, worker, job, lease)
  local grant = { worker, lease }
  given.list[#given.list + 1] = grant
  given.pieces[#given.pieces + 1] = job
  if not lease then given.unleased[#given.unleased + 1] = grant end
  return grant
end

-- Assigns the next job that can run to the worker. Does nothing if there is none or the call has reached its
-- limits. The batch of the job is closed to events and its attempt is counted.
function grants.give_next(call, given, worker)
  if is_full(given) then return end
  local job, bid, start = choosing.take_next(call, given.choice, given.reader, worker)
  if not job then return end
  local grant = add_grant(given, worker, job, false)
  given.holders[#given.holders + 1] = worker
  if not bid then return end
  local token = start[1]
  given.lane_of[worker] = token
  given.subscribers[token] = true
  close_batch(call, given, token, bid)
  start[3] = string.format('%d', start[3] + 1)
  redis.call('LSET', call.keys.batch(bid), 2, start[3])
  grant[3] = add_batch(call, given, bid, start)
  grant[4] = drop_notices.give(call, token, bid)
end

-- Gives the worker once more the job that it already holds. `lease`: the number of its lease; nil if that has
-- run out.
function grants.give_again(call, given, worker, job, lease)
  local grant = add_grant(given, worker, job, tonumber(lease) or false)
  local bid = jobs.batch_of(job)
  local start = bid and choosing.start_of(call, bid)
  if not start then return end
  local token = start[1]
  given.subscribers[token] = given.subscribers[token] or false
  grant[3] = add_batch(call, given, bid, start)
  grant[4] = drop_notices.carried_by(call, token, bid)
end

-- Returns a list that alternates between the token of a subscriber of the batches and the list of its fields.
-- Subscribers that have left are omitted.
local function describe_subscribers(call, given)
  local described = {}
  for token, is_attempted in pairs(given.subscribers) do
    local lane = lane_entry.read(call, given.reader, token)
    if lane.callback then
      -- As text, because Redis takes half a microsecond to convert a Lua number.
      local now = string.format('%d', call.now_ms)
      if is_attempted then redis.call('HSET', call.keys.subscriber(token), 'last_attempted_at', now) end
      described[#described + 1] = token
      described[#described + 1] = lane.delivery_fields
    end
  end
  return described
end

-- Stores the leases, the holders and the lanes that they entered. Returns the list of
-- `describe_subscribers`.
function grants.settle(call, given)
  local keys, unleased = call.keys, given.unleased
  if #unleased > 0 then
    local before, leases = redis.call('INCRBY', keys.leases_last(), #unleased) - #unleased, {}
    for i, grant in ipairs(unleased) do
      grant[2] = before + i
      leases[2 * i - 1], leases[2 * i] = grant[1], grant[2]
    end
    redis.call('HSET', keys.leases(), unpack(leases))
  end
  if #given.holders > 0 then redis.call('SADD', keys.jobs_pending_index(given.choice.q), unpack(given.holders)) end
  lanes.join(call, given.lane_of)
  return describe_subscribers(call, given)
end

return grants
