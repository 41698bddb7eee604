-- Handing out: what workers are given, under a lease each. What is the same for all is written once (settle_grants).

-- How much one call hands out, give or take a batch: bounds the time that it blocks Redis, and the reply.
local MOST_EVENTS = 5000
local MOST_BYTES = 1000000

-- Digits: Redis takes half a microsecond to read a number of Lua's.
local NOW = string.format('%d', now)

local grants, events, bytes = {}, 0, 0
-- What acquire returns: what tells of all, then for each grant its job and the events of its batch.
local reply = { '' }
-- The workers of grants that need a lease, those that were given a job, and the lane that each entered.
local lessees, holders, entrants = {}, {}, {}
-- Of the batches handed out; true where there is a new attempt.
local subscribers = {}

-- True where no more is to be handed out in this call.
local function is_full()
  return no_more or events >= MOST_EVENTS or bytes >= MOST_BYTES
end

-- The open batch of each subscriber; false where there is none.
local open_of = {}
local function close(token, bid)
  if open_of[token] == nil then open_of[token] = open_bid(token) end
  if open_of[token] == bid then shut(token, bid) end
end

-- Lua joins up to its buffer of 8 KB without copying again. Batches in one piece took up to three times as long; one of 260 MB
-- blocked Redis for 5 s.
local PIECE_BYTES = 8192
local OPENING_BRACE = 123

local function add_piece(list, first, last, size)
  reply[#reply + 1] = first == last and list[first] or table.concat(list, ',', first, last)
  bytes = bytes + size
end

-- Adds the events from `first` to `last` to the reply, joined with commas. Returns how many pieces they make. An event that is
-- not JSON (of Routemaster or schema 1) is a piece of its own: the worker tells it by its first byte.
local function add_pieces(list, first, last)
  local before, from, size, is_open = #reply, first, 0, false
  for i = first, last do
    local event = list[i]
    local is_json = event:byte() == OPENING_BRACE
    if i > from and not (is_json and is_open and size + #event <= PIECE_BYTES) then
      add_piece(list, from, i - 1, size)
      from, size = i, 0
    end
    is_open = is_json
    size = size + #event + 1
  end
  if from <= last then add_piece(list, from, last, size) end
  return #reply - before
end

-- The whole batch: subscriber, created, attempts, how many events, in how many pieces. start: the beginning of its list.
local function read_batch(bid, start)
  local list = start
  if #start == START then
    list = redis.call('LRANGE', key.batch(bid), 0, -1)
  end
  local count = #list - HEAD
  events = events + count
  return { start[1], start[2], start[3], count, add_pieces(list, HEAD + 1, #list) }
end

-- The next job that can run, if there is one. Its batch is closed, and its attempt counted.
local function give_next(q, worker, most, limit, limit_max)
  local job, bid, start = take_next(q, worker, most, limit, limit_max)
  if not job then return end
  local granted = { worker, false }
  reply[#reply + 1] = job
  holders[#holders + 1] = worker
  lessees[#lessees + 1] = granted
  grants[#grants + 1] = granted
  if not bid then return end
  local token = start[1]
  entrants[worker] = token
  subscribers[token] = true
  close(token, bid)
  start[3] = string.format('%d', start[3] + 1)
  redis.call('LSET', key.batch(bid), 2, start[3])
  granted[3] = read_batch(bid, start)
  granted[4] = tell_gap(token, bid)
end

-- The job that the worker holds. lease: if it has not run out.
local function give_again(worker, job, lease)
  local granted = { worker, tonumber(lease) or false }
  reply[#reply + 1] = job
  if not lease then lessees[#lessees + 1] = granted end
  grants[#grants + 1] = granted
  local bid = bid_of(job)
  local start = bid and start_of(bid)
  if not start then return end
  local token = start[1]
  subscribers[token] = subscribers[token] or false
  granted[3] = read_batch(bid, start)
  granted[4] = gap_of_teller(token, bid)
end

local function settle_grants(q)
  if #lessees > 0 then
    local last, leases = redis.call('INCRBY', key.leases_last(), #lessees) - #lessees, {}
    for i, granted in ipairs(lessees) do
      granted[2] = last + i
      leases[2 * i - 1], leases[2 * i] = granted[1], granted[2]
    end
    redis.call('HSET', key.leases(), unpack(leases))
  end
  if #holders > 0 then redis.call('SADD', key.jobs_pending_index(q), unpack(holders)) end
  join_lanes(entrants)
end

local function describe_subscribers()
  local described = {}
  for token, attempted in pairs(subscribers) do
    if read_lane(token).callback then
      if attempted then redis.call('HSET', key.subscriber(token), 'last_attempted_at', NOW) end
      described[#described + 1] = token
      described[#described + 1] = read_lane(token).told
    end
  end
  return described
end
