#!lua flags=allow-oom
--[[
autodrop: free memory by deleting the oldest dead letters, and then the oldest batches with their jobs.

Each of `cuts` names a subscriber, or none for all of them together, and how many to delete at most. Its reply
has how many were deleted. `is_spent` is true if nothing else can be deleted there. Batches that workers are
delivering now are skipped. Every dropped event is counted for its subscriber: in the next drop notice, and in
the sum `dropped:{token}`. The events of a batch are counted by topic before it is deleted. A large batch needs
several calls for that. Until the last of them deletes it, the batch stays unchanged and can be delivered.

`drops` has one record for each subscriber with dropped events; `queued` of its events were in batches, the
others in dead letters. `begun_bid`, `begun_at` and `begun_topics` describe a batch that is not counted to its
end. The caller passes them to the next call, with the same first cut.
]]
local batches = include('batches')
local dead_letters = include('dead_letters')
local drop_notices = include('drop_notices')
local drops = include('drops')
local jobs = include('jobs')

-- Maximum work of one call before Redis serves others. The unit is about 1 µs of Redis, as once measured. One
-- chunk of events of the largest size is as much.
local MAX_WORK = 1900
-- The work that each part of a call costs, in µs.
local WORK_OF = { cut = 4, subscriber = 30, dead_letter = 25, batch = 6, event = 0.5, byte = 0.0015 }
-- Number of events that one LRANGE reads. At the largest size that is allowed by default, they have 1.3 MB.
local CHUNK = 20
local MAX_TOPIC_LENGTH = 64

local function has_room(progress)
  return progress.work < MAX_WORK and not progress.begun
end

-- Returns the record of what the call drops of a subscriber. Creates the record if there is none.
local function drops_of(progress, token)
  local sum = progress.by_token[token]
  if not sum then
    sum = { subscriber = token, batches = 0, events = 0, queued = 0, from_ms = math.huge, to_ms = 0, topics = {} }
    progress.by_token[token] = sum
    progress.drops[#progress.drops + 1] = sum
    progress.work = progress.work + WORK_OF.subscriber
  end
  return sum
end

-- Returns the topic of an event, or an empty text if the event cannot be read. Legacy events (of the Ruby
-- Routemaster, or of layout 1) are MessagePack ["e", {o = topic, …}].
local function topic_of(event)
  local topic = event:match('^{"id":"[^"]*","topic":"([a-z0-9_]+)"')
  if topic then return topic end
  local ok, decoded = pcall(cmsgpack.unpack, event)
  local fields = ok and type(decoded) == 'table' and decoded[2]
  topic = type(fields) == 'table' and fields.o
  if type(topic) ~= 'string' or #topic > MAX_TOPIC_LENGTH or topic:find('[^a-z0-9_]') then return '' end
  return topic
end

-- Adds the events in `items`, from position `first` on, to the counts by topic.
local function count_events(progress, items, first, counts)
  local bytes = 0
  for i = first, #items do
    local topic = topic_of(items[i])
    counts[topic] = (counts[topic] or 0) + 1
    bytes = bytes + #items[i]
  end
  progress.work = progress.work + math.max(0, #items - first + 1) * WORK_OF.event + bytes * WORK_OF.byte
end

-- Counts the events of a list by topic. `items` are the first HEADER + CHUNK items of the list. Returns the
-- counts and the length of the list, or nothing if another call must continue. Counts of earlier calls stay
-- valid, because events are only added at the end of a list.
local function count_topics(progress, bid, list, items)
  local at, counts, is_whole = #items, {}, #items < batches.HEADER + CHUNK
  if bid == progress.before.begun_bid then
    at, is_whole = progress.before.begun_at, false
    for _, each in ipairs(progress.before.begun_topics) do counts[each.topic] = each.events end
  else
    count_events(progress, items, batches.HEADER + 1, counts)
  end
  while not is_whole do
    if progress.work >= MAX_WORK then
      progress.begun = { bid = bid, at = at, counts = counts }
      return
    end
    local events = redis.call('LRANGE', list, at, at + CHUNK - 1)
    count_events(progress, events, 1, counts)
    at = at + #events
    is_whole = #events < CHUNK
  end
  return counts, at
end

-- Adds a batch or dead letter to the drops of its subscriber; the caller then deletes it. Returns true, the
-- subscriber and the number of events. Returns true alone if the list is gone. Returns false if another call
-- of the script must continue counting.
local function note_drop(call, progress, bid, list, is_queued)
  local items = redis.call('LRANGE', list, 0, batches.HEADER + CHUNK - 1)
  local token, created_ms = items[1], items[2]
  if not token then return true end
  local counts, length = count_topics(progress, bid, list, items)
  if not counts then return false end
  local sum, events = drops_of(progress, token), length - batches.HEADER
  sum.batches = sum.batches + 1
  sum.events = sum.events + events
  if is_queued then sum.queued = sum.queued + events end
  -- If the header is damaged, the time of creation may be unreadable. The sweep reports such a batch.
  local at_ms = tonumber(created_ms) or call.now_ms
  sum.from_ms = math.min(sum.from_ms, at_ms)
  sum.to_ms = math.max(sum.to_ms, at_ms)
  for topic, count in pairs(counts) do sum.topics[topic] = (sum.topics[topic] or 0) + count end
  return true, token, events
end

local function drop_dead_letters(call, progress, cut)
  for _, bid in ipairs(redis.call('ZRANGE', cut.letters, 0, cut.max_deleted - 1)) do
    if not has_room(progress) then return end
    if note_drop(call, progress, bid, call.keys.dead_letter(bid), false) then
      if not dead_letters.delete(call, bid) then redis.call('ZREM', cut.letters, bid) end
      cut.deleted = cut.deleted + 1
      progress.work = progress.work + WORK_OF.dead_letter
    end
  end
end

local function drop_batches(call, progress, cut, held, held_count)
  local max = cut.max_deleted - cut.deleted
  if max == 0 then return end
  for _, bid in ipairs(redis.call('ZRANGE', cut.queue, 0, max + held_count - 1)) do
    if not has_room(progress) or cut.deleted == cut.max_deleted then return end
    local noted, token, events = false, nil, nil
    if not held[jobs.delivery_of(bid)] then
      noted, token, events = note_drop(call, progress, bid, call.keys.batch(bid), true)
    end
    if noted then
      if not token then redis.call('ZREM', cut.queue, bid) end
      drops.add(call, progress.collection, bid, token, events)
      cut.deleted = cut.deleted + 1
      progress.work = progress.work + WORK_OF.batch
    end
  end
end

-- Carries out one cut as far as the call may still work. Returns its record in the reply.
local function carry_out(call, progress, wanted, held, held_count)
  local keys, token = call.keys, wanted.token
  local cut = {
    letters = token and keys.dead_letters_of(token) or keys.dead_letters_index(),
    queue = token and keys.batches_queued(token) or keys.batches_index(),
    max_deleted = wanted.max_deleted, deleted = 0,
  }
  progress.work = progress.work + WORK_OF.cut
  drop_dead_letters(call, progress, cut)
  drop_batches(call, progress, cut, held, held_count)
  return { deleted = cut.deleted, is_spent = cut.deleted < cut.max_deleted and has_room(progress) }
end

local function notify(call, sum)
  local fields = { 'batches', sum.batches, 'events', sum.events, 'from', sum.from_ms, 'to', sum.to_ms }
  for topic, events in pairs(sum.topics) do
    fields[#fields + 1] = 'topic:' .. topic
    fields[#fields + 1] = events
  end
  drop_notices.add(call, sum.subscriber, fields)
end

local function as_list(counts)
  local list = {}
  for topic, events in pairs(counts) do list[#list + 1] = { topic = topic, events = events } end
  return list
end

return function(call, args)
  local progress = { before = args, work = 0, by_token = {}, drops = {}, collection = drops.collection() }
  local held, held_count = drops.jobs_held(call)
  local cuts = {}
  for i, wanted in ipairs(args.cuts) do
    if not has_room(progress) then break end
    cuts[i] = carry_out(call, progress, wanted, held, held_count)
  end
  drops.settle(call, progress.collection)
  for _, sum in ipairs(progress.drops) do
    notify(call, sum)
    sum.topics = as_list(sum.topics)
  end
  local begun = progress.begun or { counts = {} }
  return {
    cuts = cuts, drops = progress.drops,
    begun_bid = begun.bid, begun_at = begun.at, begun_topics = as_list(begun.counts),
  }
end
