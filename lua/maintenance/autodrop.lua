#!lua flags=allow-oom
--[[
autodrop: delete the oldest dead letters, and when there are none the oldest batches with their jobs, to free memory.

Batches that are being delivered right now are passed over. What is dropped is noted for its subscriber, to the event: in the
gap of which it is told next, and for good. The events of a batch are counted by topic before it is deleted, which takes a
large one several calls: until the last it stays as it is, and can be delivered.

KEYS
  schema                     string  names the partition
TOUCHES
  batches:index              zset
  batch:{bid}                list
  attempts:{bid}             list
  batches:open               hash
  batches:current:{token}    set
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  dead_letter:{bid}          list
  dead_letter:about:{bid}    hash
  dead_letters:index         zset
  dead_letters:index:{token} zset
  dead_letters:gauges:event  hash
  gap:{token}                hash
  dropped:{token}            hash
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       zset
  subscriber:{token}         hash    probe; reads paused_at, ordered
ARGV
  n                          the most dead letters and batches to delete in this call; what they hold makes it fewer
  bid, at, topic, events, …  what the call before had begun to count: up to where, and its events by topic
RETURNS
  deleted                    how many were deleted; 0, and nothing begun: there is nothing left to drop
  drops                      a list of {subscriber, queued, {field, value, …}}: what was dropped of whom: how many of its
                             events were in batches, and not in dead letters; and all, as in gap:{token}
  begun                      what this call began to count and did not delete, to be given to the next
]]
-- include: now
-- include: jobs
-- include: waiting
-- include: open_batch
-- include: batches
-- include: dead_letters
-- include: drop
-- include: gaps

-- What one call does, in µs of Redis where this was measured: then others are served. Of the largest events one chunk is enough.
local MOST_WORK = 1900
local WORK_OF = { subscriber = 30, dead_letter = 25, batch = 6, event = 0.5, byte = 0.0015 }
-- How many events are read at a time: of the largest, 1.3 MB.
local CHUNK = 20

local n = tonumber(ARGV[1])
local begun_bid, begun_at = ARGV[2], tonumber(ARGV[3])
local FIRST_COUNT = 4
local deleted, work = 0, 0
local begun = {}

local function has_room()
  return deleted < n and work < MOST_WORK and #begun == 0
end

local drops_of, tokens = {}, {}
local function drops_for(token)
  if not drops_of[token] then
    drops_of[token] = { batches = 0, events = 0, queued = 0, from = math.huge, to = 0, topics = {} }
    tokens[#tokens + 1] = token
    work = work + WORK_OF.subscriber
  end
  return drops_of[token]
end

local function counted_before()
  local counts = {}
  for i = FIRST_COUNT, #ARGV, 2 do counts[ARGV[i]] = tonumber(ARGV[i + 1]) end
  return counts
end

local function keep_for_next_call(bid, at, counts)
  begun = { bid, at }
  for topic, events in pairs(counts) do
    begun[#begun + 1] = topic
    begun[#begun + 1] = events
  end
end

local LONGEST_TOPIC = 64

-- The topic of an event; empty if it cannot be read. An event of Routemaster or schema 1 is MessagePack ["e", {o = topic, …}].
local function topic_of(event)
  local topic = event:match('^{"id":"[^"]*","topic":"([a-z0-9_]+)"')
  if topic then return topic end
  local ok, decoded = pcall(cmsgpack.unpack, event)
  local fields = ok and type(decoded) == 'table' and decoded[2]
  topic = type(fields) == 'table' and fields.o
  if type(topic) ~= 'string' or #topic > LONGEST_TOPIC or topic:find('[^a-z0-9_]') then return '' end
  return topic
end

-- Counts the items from `first` on, which are events, by topic.
local function count_events(items, first, counts)
  local bytes, last, run = 0, nil, 0
  for i = first, #items do
    local event = items[i]
    local topic = topic_of(event)
    if topic == last then
      run = run + 1
    else
      if last then counts[last] = (counts[last] or 0) + run end
      last, run = topic, 1
    end
    bytes = bytes + #event
  end
  if last then counts[last] = (counts[last] or 0) + run end
  work = work + math.max(0, #items - first + 1) * WORK_OF.event + bytes * WORK_OF.byte
end

-- The events of a list by topic, and how long it is; nothing if there are too many for one call. items: the first of them.
-- What was counted before stands: lists only grow.
local function count_topics(bid, list, items)
  local at, counts, is_whole = #items, {}, #items < HEAD + CHUNK
  if bid == begun_bid then
    at, counts, is_whole = begun_at, counted_before(), false
  else
    count_events(items, HEAD + 1, counts)
  end
  while not is_whole do
    if work >= MOST_WORK then return keep_for_next_call(bid, at, counts) end
    local events = redis.call('LRANGE', list, at, at + CHUNK - 1)
    count_events(events, 1, counts)
    at = at + #events
    is_whole = #events < CHUNK
  end
  return counts, at
end

-- Notes what a batch or dead letter holds that is about to be deleted. Answers true, its subscriber and how many events it
-- holds; false if that takes another call. Of a list that is gone there is nothing to note.
local function note_drop(bid, list, is_queued)
  local items = redis.call('LRANGE', list, 0, HEAD + CHUNK - 1)
  local token, created = items[1], items[2]
  if not token then return true end
  local counts, length = count_topics(bid, list, items)
  if not counts then return false end
  local drops, events = drops_for(token), length - HEAD
  drops.batches = drops.batches + 1
  drops.events = drops.events + events
  if is_queued then drops.queued = drops.queued + events end
  -- Of one whose head is not sound, which the sweep reports, nobody knows when it was opened.
  local at = tonumber(created) or now
  drops.from = math.min(drops.from, at)
  drops.to = math.max(drops.to, at)
  for topic, counted in pairs(counts) do drops.topics[topic] = (drops.topics[topic] or 0) + counted end
  return true, token, events
end

for _, bid in ipairs(redis.call('ZRANGE', key.dead_letters_index(), 0, n - 1)) do
  if not has_room() then break end
  if note_drop(bid, key.dead_letter(bid), false) then
    delete_dead_letter(bid)
    deleted = deleted + 1
    work = work + WORK_OF.dead_letter
  end
end

local held, held_count = jobs_held()
for _, bid in ipairs(redis.call('ZRANGE', key.batches_index(), 0, n + held_count - 1)) do
  if not has_room() then break end
  local job = batch_job(bid)
  local noted, token, events = false, nil, nil
  if not held[job] then noted, token, events = note_drop(bid, key.batch(bid), true) end
  if noted then
    drop_batch(bid, job, token, events)
    deleted = deleted + 1
    work = work + WORK_OF.batch
  end
end
settle_drops()

local answer = {}
for _, token in ipairs(tokens) do
  local drops = drops_of[token]
  local fields = { 'batches', drops.batches, 'events', drops.events, 'from', drops.from, 'to', drops.to }
  for topic, events in pairs(drops.topics) do
    fields[#fields + 1] = 'topic:' .. topic
    fields[#fields + 1] = events
  end
  add_gap(token, fields)
  answer[#answer + 1] = { token, drops.queued, fields }
end
announce()
return { deleted, answer, begun }
