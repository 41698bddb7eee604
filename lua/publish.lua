#!lua
--[[
publish: append events to the current batch of every subscriber of their topics.

Many publications go in one call. Each is all or nothing: the topic is claimed for the client, or found to be another's,
before anything is stored. A subscriber's events stay in the order of acceptance, over all its topics. A batch that fills
up is closed and its job made instant; a new batch gets its job in the same step, so no batch is ever without one.

KEYS
  schema                     string  names the partition
TOUCHES
  topics                     set
  topic:{topic}              hash    publisher, counter
  subscribers:{topic}        set
  subscriber:{token}         hash    reads timeout, max_events
  batch:{bid}                list
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
ARGV
  seed                       the first 16 characters of the UIDs that this call makes
  topic, client, n, event…   a publication: its topic, the token of its client, n packed events; again and again
RETURNS
  accepted                   a list with, for each publication, how many subscribers got it; -1: the topic is another
                             client's
  added                      a list of subscriber, events added; again and again
]]
-- include: now
-- include: jobs
-- include: batches

local DEFAULT_TIMEOUT_MS = 500
local DEFAULT_MAX_EVENTS = 100
-- Lua's unpack fails at 8,000 values.
local CHUNK = 4000

-- In the order of their bytes, so that the UIDs of one call sort as they were made.
local DIGITS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
local made = 0
local function new_bid()
  local rest, tail = made, ''
  for _ = 1, 4 do
    local digit = rest % 64
    tail = DIGITS:sub(digit + 1, digit + 1) .. tail
    rest = (rest - digit) / 64
  end
  made = made + 1
  return ARGV[1] .. tail
end

local publisher_of = {}
local function claim(topic, client)
  local publisher = publisher_of[topic] or redis.call('HGET', key.topic(topic), 'publisher')
  if not publisher or publisher == '' then
    publisher = client
    redis.call('HSET', key.topic(topic), 'publisher', client)
    redis.call('SADD', key.topics(), topic)
  end
  publisher_of[topic] = publisher
  return publisher == client
end

-- A batch of which the list is gone is forgotten.
local function current_batch(token)
  local bid = redis.call('SRANDMEMBER', key.batches_current(token))
  if not bid then return nil, 0 end
  local length = redis.call('LLEN', key.batch(bid)) - HEAD
  if length >= 0 then return bid, length end
  redis.call('SREM', key.batches_current(token), bid)
  return nil, 0
end

-- A batch that is born full is ready at once.
local function open_batch(token, full, timeout)
  local bid = new_bid()
  local job = batch_job(bid)
  redis.call('RPUSH', key.batch(bid), token, now, 0)
  redis.call('ZADD', key.batches_index(), now, bid)
  redis.call('ZADD', key.batches_queued(token), now, bid)
  redis.call('HINCRBY', key.gauge_batches(), token, 1)
  redis.call('SADD', key.jobs_index('main'), job)
  if not full then redis.call('SADD', key.batches_current(token), bid) end
  if full or timeout == 0 then
    make_instant('main', job)
  else
    make_scheduled('main', job, now + timeout)
  end
  return bid
end

-- The job of a full batch is instant unless it is already (its deadline has come).
local function close_batch(token, bid)
  redis.call('SREM', key.batches_current(token), bid)
  local job = batch_job(bid)
  if redis.call('ZREM', key.jobs_scheduled('main'), job) == 1 then make_instant('main', job) end
end

local function append(token, events)
  local settings = redis.call('HMGET', key.subscriber(token), 'timeout', 'max_events')
  local timeout = tonumber(settings[1]) or DEFAULT_TIMEOUT_MS
  -- At least one: a batch that takes none would be opened again for ever.
  local max = math.max(1, tonumber(settings[2]) or DEFAULT_MAX_EVENTS)
  local bid, length = current_batch(token)
  local at = 1
  while at <= #events do
    local left = #events - at + 1
    if bid and length >= max then
      close_batch(token, bid)
      bid = nil
    end
    if not bid then
      bid, length = open_batch(token, left >= max, timeout), 0
    end
    local take = math.min(max - length, left, CHUNK)
    redis.call('RPUSH', key.batch(bid), unpack(events, at, at + take - 1))
    length = length + take
    at = at + take
  end
  if length >= max then close_batch(token, bid) end
  redis.call('HINCRBY', key.gauge_events(), token, #events)
end

local accepted = {}
local counted = {}
local subscribers_of = {}
local events_of = {}
local tokens = {}
local i = 2
while i <= #ARGV do
  local topic, client, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local ok = claim(topic, client)
  if ok then
    counted[topic] = (counted[topic] or 0) + n
    if not subscribers_of[topic] then
      subscribers_of[topic] = redis.call('SMEMBERS', key.topic_subscribers(topic))
    end
    accepted[#accepted + 1] = #subscribers_of[topic]
    for _, token in ipairs(subscribers_of[topic]) do
      local events = events_of[token]
      if not events then
        events = {}
        events_of[token] = events
        tokens[#tokens + 1] = token
      end
      for e = i + 3, i + 2 + n do
        events[#events + 1] = ARGV[e]
      end
    end
  else
    accepted[#accepted + 1] = -1
  end
  i = i + 3 + n
end

for topic, n in pairs(counted) do
  redis.call('HINCRBY', key.topic(topic), 'counter', n)
end

local added = {}
for _, token in ipairs(tokens) do
  append(token, events_of[token])
  added[#added + 1] = token
  added[#added + 1] = #events_of[token]
end
announce()
return { accepted, added }
