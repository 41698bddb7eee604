#!lua
--[[
publish: append events to the current batch of every subscriber of their topics.

The open batches of all subscribers are found in one command, and what can be entered in bulk is. Many publications go in one
call. Each is all or nothing: the topic is claimed for the client, or found to be another's, before anything is stored. A
subscriber's events stay in the order of acceptance, over all its topics. A batch that fills up is closed and its job made
instant; a new batch gets its job in the same step, so no batch is ever without one. The batches of an ordered subscriber
stand in its index strictly in their order. A publication that was accepted under an idempotency key is known by it for a
while: the same again, even in one call, is answered and not stored.

KEYS
  schema                     string  names the partition
TOUCHES
  topics                     set
  topic:{topic}              hash    publisher, counter
  subscribers:{topic}        set
  subscriber:{token}         hash    reads timeout, max_events, ordered
  batch:{bid}                list
  batches:open               hash
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  idempotency:{digest}       string  the fingerprint
ARGV
  seed                       the first 16 characters of the UIDs that this call makes
  window                     for how many ms an idempotency key is known
  most_topics                how many topics there may be: at that none is made
  topic, client, digest, fingerprint, n, event…
                             a publication: its topic, the token of its client, the digest of its idempotency key (empty:
                             it has none), the fingerprint of what goes under it, and n events as JSON; again and again
RETURNS
  accepted                   a list with, for each publication, how many subscribers got it; -1: the topic is another
                             client's; -2: it was accepted before; -3: something else was, under this key;
                             -4: there is no such topic, and no room for one
  added                      a list of events, subscribers, for each topic: how many events its subscribers got, and their
                             tokens, a line each (one text costs less than a list)
]]
-- include: now
-- include: try
-- include: jobs
-- include: open_batch
-- include: batches
-- include: closing
-- include: bulk
-- include: opening

local ANOTHERS, REPEATED, REUSED, NO_ROOM = -1, -2, -3, -4
local MOST_TOPICS = tonumber(ARGV[3])

local publisher_of = {}
local function has_no_room(topic)
  return redis.call('SISMEMBER', key.topics(), topic) == 0 and redis.call('SCARD', key.topics()) >= MOST_TOPICS
end

-- Nothing, or why it cannot be claimed.
local function claim(topic, client)
  local publisher = publisher_of[topic] or redis.call('HGET', key.topic(topic), 'publisher')
  if not publisher or publisher == '' then
    if has_no_room(topic) then return NO_ROOM end
    publisher = client
    redis.call('HSET', key.topic(topic), 'publisher', client)
    redis.call('SADD', key.topics(), topic)
  end
  publisher_of[topic] = publisher
  if publisher ~= client then return ANOTHERS end
end

-- What is accepted in this call, by digest. Written last: should the call fail half-way, its publications were none.
local fingerprints = {}
local function known(digest, fingerprint)
  local before = fingerprints[digest] or redis.call('GET', key.idempotency(digest))
  if before then return before == fingerprint and REPEATED or REUSED end
end

local function remember()
  for digest, fingerprint in pairs(fingerprints) do
    redis.call('SET', key.idempotency(digest), fingerprint, 'PX', ARGV[2])
  end
end

-- Events stand in a list, from one to another. The list is ARGV itself where they stand together there, as they nearly always do.
local function append_range(list, from, first, last)
  for e = first, last do list[#list + 1] = from[e] end
  return list
end

-- The subscribers that get events, and where those of each stand. Those of one run share their list.
local tokens, lists, firsts, lasts, is_own = {}, {}, {}, {}, {}
local function add_events(subscribers, events, first, last)
  for _, token in ipairs(subscribers) do
    local list = lists[token]
    if not list then
      lists[token], firsts[token], lasts[token] = events, first, last
      tokens[#tokens + 1] = token
    else
      if not is_own[token] then
        list = append_range({}, list, firsts[token], lasts[token])
        lists[token], firsts[token], is_own[token] = list, 1, true
      end
      append_range(list, events, first, last)
      lasts[token] = #list
    end
  end
end

local accepted, counted, topics, subscribers_of = {}, {}, {}, {}
local function audience(topic)
  if not subscribers_of[topic] then
    topics[#topics + 1] = topic
    counted[topic] = 0
    subscribers_of[topic] = redis.call('SMEMBERS', key.topic_subscribers(topic))
  end
  return subscribers_of[topic]
end

-- A run: publications to one topic, one after the other.
local run_topic, run, run_first, run_last
local function end_run()
  if run then add_events(audience(run_topic), run, run_first, run_last) end
  run = nil
end

local function accept(topic, first, last)
  if topic ~= run_topic or not run then
    end_run()
    run_topic, run, run_first, run_last = topic, ARGV, first, last
  else
    if run == ARGV then run = append_range({}, ARGV, run_first, run_last) end
    append_range(run, ARGV, first, last)
    run_first, run_last = 1, #run
  end
  local subscribers = #audience(topic)
  counted[topic] = counted[topic] + last - first + 1
  return subscribers
end

-- The publication that stands in ARGV from `at`, and its events: how many subscribers got it, or why not.
local function take(at, first, last)
  local topic, digest, fingerprint = ARGV[at], ARGV[at + 2], ARGV[at + 3]
  local refusal = digest ~= '' and known(digest, fingerprint) or claim(topic, ARGV[at + 1])
  if refusal then return refusal end
  if digest ~= '' then fingerprints[digest] = fingerprint end
  return accept(topic, first, last)
end

local i = 4
while i <= #ARGV do
  local n = tonumber(ARGV[i + 4])
  local first = i + 5
  accepted[#accepted + 1] = take(i, first, first + n - 1)
  i = first + n
end
end_run()

-- Fills an open batch. Returns how many events it took, and how long its list is then; 0 if it is gone.
local function fill(batch, most, events, first, last)
  -- One fits into any open batch: no need to look how long it is.
  if first == last then return 1, redis.call('RPUSHX', batch, events[first]) end
  local length = redis.call('LLEN', batch)
  if length == 0 then return 0, 0 end
  local taken = math.max(0, math.min(last - first + 1, most + HEAD - length))
  for from = first, first + taken - 1, CHUNK do
    redis.call('RPUSH', batch, unpack(events, from, math.min(from + CHUNK, first + taken) - 1))
  end
  return taken, length + taken
end

local batch_key = key.batch('')
local function append(token, entry)
  local events, first, last = lists[token], firsts[token], lasts[token]
  if not entry then return open_batches(token, events, first, last) end
  local bid, most = read_entry(entry)
  local taken, length = fill(batch_key .. bid, most, events, first, last)
  if length == 0 then
    -- A batch of which the list is gone is forgotten.
    shut(token, bid)
    taken = 0
  elseif length - HEAD >= most then
    close_batch(token, bid)
  end
  if first + taken <= last then open_batches(token, events, first + taken, last) end
end

for _, topic in ipairs(topics) do
  redis.call('HINCRBY', key.topic(topic), 'counter', counted[topic])
end
if #tokens > 0 then
  local entries, counts = get_fields(key.batches_open(), tokens), {}
  try(function()
    for t = 1, #tokens do
      local token = tokens[t]
      append(token, entries[t])
      counts[t] = lasts[token] - firsts[token] + 1
    end
  end)
  -- What was begun is made whole also where one has failed (a key of the wrong type, say).
  enter_opened()
  add_to_gauge(key.gauge_events(), tokens, counts)
  announce()
  throw_failure()
end
remember()

local added = {}
for t, topic in ipairs(topics) do
  added[2 * t - 1] = counted[topic]
  added[2 * t] = table.concat(subscribers_of[topic], '\n')
end
return { accepted, added }
