--[[
Drop sums: how many batches and events one script call of autodrop drops of each subscriber, with the events by topic.

The sums also measure the work of the script call, so that it stops before it has blocked Redis for too long. So the
events of a large batch are counted by several script calls; `begun` is the batch that this call has counted in part.
]]
local batches = include('delivering/batches')
local drop_notices = include('delivering/drop_notices')
local drop_sums = {}

-- Maximum work of one script call, in units of about 1 µs: the call blocks Redis for about 2 ms. The work is checked
-- only after every 20 events, so 20 very large events can take another 2 ms.
local MAX_WORK = 1900
-- Estimated time (µs) that Redis takes to count what is dropped: `sum` for each subscriber that loses events, `event`
-- for each event, and `byte` for each byte of an event.
local WORK_OF = { sum = 30, event = 0.5, byte = 0.0015 }
-- Number of events that one LRANGE reads. A script call can stop only between two reads, and 20 events can have 1.3 MB.
local EVENTS_PER_READ = 20
local MAX_TOPIC_LENGTH = 64

-- Creates the table in which one script call adds up, for each subscriber, what it drops. If the previous call has
-- counted only a part of a large batch, `args.begun_bid` is this batch, and `args.begun_items` says how many items of
-- its list are counted.
function drop_sums.begin(args)
  return { args = args, work = 0, by_token = {}, list = {} }
end

-- Returns true if the script call may drop more. Returns false if it has done its maximum work, or has counted only a
-- part of a large batch (`begun`).
function drop_sums.has_room(sums)
  return sums.work < MAX_WORK and not sums.begun
end

local function sum_of(sums, token)
  local sum = sums.by_token[token]
  if not sum then
    sum = { subscriber = token, batches = 0, events = 0, queued = 0, from_ms = math.huge, to_ms = 0, topics = {} }
    sums.by_token[token] = sum
    sums.list[#sums.list + 1] = sum
    sums.work = sums.work + WORK_OF.sum
  end
  return sum
end

-- Returns the topic of an event, or an empty text if the event cannot be read. Events of the Ruby Routemaster, and of
-- layout 1 of this bus, are MessagePack ["e", {o = topic, …}].
local function topic_of(event)
  local topic = event:match('^{"id":"[^"]*","topic":"([a-z0-9_]+)"')
  if topic then return topic end
  local ok, decoded = pcall(cmsgpack.unpack, event)
  local fields = ok and type(decoded) == 'table' and decoded[2]
  topic = type(fields) == 'table' and fields.o
  if type(topic) ~= 'string' or #topic > MAX_TOPIC_LENGTH or topic:find('[^a-z0-9_]') then return '' end
  return topic
end

local function count_events(sums, items, first, counts)
  local bytes = 0
  for i = first, #items do
    local topic = topic_of(items[i])
    counts[topic] = (counts[topic] or 0) + 1
    bytes = bytes + #items[i]
  end
  sums.work = sums.work + math.max(0, #items - first + 1) * WORK_OF.event + bytes * WORK_OF.byte
end

-- Counts the events of a batch by topic. `items` are the first items of its list: the header and up to EVENTS_PER_READ
-- events. Returns the counts and the length of the list. If the maximum work is done before all events are counted,
-- returns nothing, and stores in `sums.begun` where the next call goes on.
--
-- Between two calls, `acquire` may remove events from the list, so some events may be counted twice or not at all. This
-- is accepted, because a count that began anew after each removal might never end.
local function count_topics(sums, bid, list, items)
  local at, counts, is_whole = #items, {}, #items < batches.HEADER + EVENTS_PER_READ
  if bid == sums.args.begun_bid and redis.call('LLEN', list) >= sums.args.begun_items then
    at, is_whole = sums.args.begun_items, false
    for _, each in ipairs(sums.args.begun_topics) do counts[each.topic] = each.events end
  else
    count_events(sums, items, batches.HEADER + 1, counts)
  end
  while not is_whole do
    if sums.work >= MAX_WORK then
      sums.begun = { bid = bid, at = at, counts = counts }
      return
    end
    local events = redis.call('LRANGE', list, at, at + EVENTS_PER_READ - 1)
    count_events(sums, events, 1, counts)
    at = at + #events
    is_whole = #events < EVENTS_PER_READ
  end
  return counts, at
end

-- Adds a batch (`is_queued`) or dead letter to the sums of its subscriber. Returns one of these:
--   - a table that describes the batch for the delivery log
--   - an empty table if the batch's list is gone. The caller then deletes the rest of the batch
--   - nothing if the batch is so large that not all its events are counted yet. The caller then keeps the batch
function drop_sums.note(call, sums, bid, list, is_queued)
  local items = redis.call('LRANGE', list, 0, batches.HEADER + EVENTS_PER_READ - 1)
  local token, created_ms = items[1], items[2]
  if not token then return {} end
  local counts, length = count_topics(sums, bid, list, items)
  if not counts then return end
  local sum, events = sum_of(sums, token), length - batches.HEADER
  sum.batches = sum.batches + 1
  sum.events = sum.events + events
  if is_queued then sum.queued = sum.queued + events end
  -- If the header of the batch is damaged, `created_ms` may not be a number. The batch then counts as created now.
  local at_ms = tonumber(created_ms) or call.now_ms
  sum.from_ms = math.min(sum.from_ms, at_ms)
  sum.to_ms = math.max(sum.to_ms, at_ms)
  for topic, count in pairs(counts) do sum.topics[topic] = (sum.topics[topic] or 0) + count end
  return { token = token, created_ms = created_ms, attempts = items[3], events = events, topics = counts }
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

-- Writes the sums into the drop notices, which tell subscribers what they miss. Returns the list of sums. If a large
-- batch is counted only in part, also returns its UID (`bid`), the number of its items that are counted (`at`), and the
-- counts so far (`topics`), all for the next call.
function drop_sums.finish(call, sums)
  for _, sum in ipairs(sums.list) do notify(call, sum) end
  local begun = sums.begun or { counts = {} }
  return sums.list, { bid = begun.bid, at = begun.at, topics = as_list(begun.counts) }
end

return drop_sums
