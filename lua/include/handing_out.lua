-- Handing out: what workers are given, under a lease each. What is the same for all is written once (settle_grants).

-- How much one call hands out, give or take a batch: bounds the time that it blocks Redis, and the reply.
local MOST_EVENTS = 5000
local MOST_BYTES = 1000000

-- Digits: Redis takes half a microsecond to read a number of Lua's.
local NOW = string.format('%d', now)

local grants, events, bytes = {}, 0, 0
-- What acquire returns: the events of the batches in pieces, after what tells of all.
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

-- What Lua joins without copying it again: it has a buffer of 8 KB. Batches in one piece took up to three times as long; one of
-- 260 MB 5 s, in which Redis did nothing else, and after which no connection waits any more.
local PIECE_BYTES = 8192

-- Events from one to another, joined as far as they fit; a longer one goes as it is. Answers how many pieces they make.
local function add_pieces(list, first, last)
  local before, size = #reply, 0
  for i = first, last + 1 do
    local more = list[i] and #list[i] or 0
    if i > first and (i > last or size + more > PIECE_BYTES) then
      reply[#reply + 1] = i - 1 == first and list[first] or table.concat(list, '', first, i - 1)
      bytes = bytes + size
      first, size = i, 0
    end
    size = size + more
  end
  return #reply - before
end

-- The whole batch: subscriber, created, attempts, how many events, in how many pieces. Events go together, as they tell where
-- they end: that is read in a fifth less of a worker's CPU. start: the beginning of its list.
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
  local granted = { worker, job, false }
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
  granted[4] = read_batch(bid, start)
  granted[5] = tell_gap(token, bid)
end

-- The job that the worker holds. lease: if it has not run out.
local function give_again(worker, job, lease)
  local granted = { worker, job, tonumber(lease) or false }
  if not lease then lessees[#lessees + 1] = granted end
  grants[#grants + 1] = granted
  local bid = bid_of(job)
  local start = bid and start_of(bid)
  if not start then return end
  local token = start[1]
  subscribers[token] = subscribers[token] or false
  granted[4] = read_batch(bid, start)
  granted[5] = gap_of_teller(token, bid)
end

local function settle_grants(q)
  if #lessees > 0 then
    local last, leases = redis.call('INCRBY', key.leases_last(), #lessees) - #lessees, {}
    for i, granted in ipairs(lessees) do
      granted[3] = last + i
      leases[2 * i - 1], leases[2 * i] = granted[1], granted[3]
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
