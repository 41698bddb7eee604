#!lua
--[[
publish_delayed: publish delayed events that are due, in the order of their time over all topics.

The events are stored for the subscribers that their topics have now, as by publish.lua, and are removed from the
delayed ones in the same step. A call does a bounded amount of work; `is_left` says whether more events are due. While
memory is exhausted Redis does not run the script (no `allow-oom`), and the events wait.

`published` has, for each topic, its events, their bytes, the tokens of its subscribers with a token on each line, and
by how many ms each event is late. `lost` has the topics and ids of entries without a text, which are removed.
]]
local calls = include('calls')
local delayed = include('delayed')
local intake = include('intake')
local storing = include('storing')

-- Maximum work of one call before Redis serves others. The unit is about 1 µs of Redis.
local MAX_WORK = 2500
-- Work of each part of a call, in µs. For a subscriber a batch may have to be opened.
local WORK_OF = { topic = 12, subscriber = 12, event = 6, copy = 0.4, byte = 0.002 }
-- How many entries of a topic one command reads.
local CHUNK = 20
-- Maximum topics of which a call publishes events. It publishes only events that are due before those of other
-- topics.
local MAX_TOPICS = 32

-- Goes on to the next entry of a topic: `entry`, `due_ms`. Behind the last one `due_ms` is math.huge.
local function go_on(topic)
  if topic.at >= #topic.entries then
    topic.entries = redis.call('ZRANGE', topic.due, topic.read, topic.read + CHUNK - 1, 'WITHSCORES')
    topic.at, topic.read = 0, topic.read + #topic.entries / 2
  end
  topic.entry, topic.due_ms = topic.entries[topic.at + 1], tonumber(topic.entries[topic.at + 2]) or math.huge
  topic.at = topic.at + 2
end

-- Returns a topic with delayed events, placed at its first entry. Events taken from it are in `taken` (their
-- entries), `ids` and `late_ms`. `bytes` counts their texts, and `held_bytes` all that they took as delayed events.
local function begin_topic(call, progress, name)
  local topic = {
    about = intake.topic(call, progress.taken, name),
    due = call.keys.delayed_due(name), hash = call.keys.delayed_events(name),
    entries = {}, at = 0, read = 0,
    taken = {}, ids = {}, late_ms = {}, bytes = 0, held_bytes = 0,
  }
  go_on(topic)
  return topic
end

-- Returns the topics whose first event is due, and the time up to which their events come before those of all other
-- topics. A topic that cannot be read, or that nobody owns, is left to the sweep. A topic whose entry is too early is
-- moved.
local function due_topics(call, progress)
  local first = redis.call('ZRANGE', call.keys.delayed_topics(), 0, MAX_TOPICS, 'WITHSCORES')
  local all, until_ms = {}, call.now_ms
  for i = 1, #first, 2 do
    local due_ms = tonumber(first[i + 1])
    if due_ms > call.now_ms then break end
    if i > 2 * MAX_TOPICS then
      until_ms = due_ms
      break
    end
    local topic = calls.try(call, begin_topic, progress, first[i])
    if not topic or not topic.about.publisher then
      redis.call('ZREM', call.keys.delayed_topics(), first[i])
    elseif topic.due_ms > call.now_ms then
      delayed.enter_topic(call, first[i])
    else
      all[#all + 1] = topic
    end
  end
  return all, until_ms
end

-- Returns the topic whose next event is due first, and the time up to which its events come before those of the other
-- topics. Returns nothing if no event is due.
local function first_topic(all, until_ms)
  local first, turn_ends_ms = nil, until_ms
  for _, topic in ipairs(all) do
    if not first or topic.due_ms < first.due_ms then
      if first then turn_ends_ms = math.min(turn_ends_ms, first.due_ms) end
      first = topic
    else
      turn_ends_ms = math.min(turn_ends_ms, topic.due_ms)
    end
  end
  if first and first.due_ms <= until_ms then return first, turn_ends_ms end
end

-- Takes the entry at which the topic is. Returns its text; nothing if it has none.
local function take_entry(call, progress, topic)
  local id = delayed.id_of(topic.entry)
  topic.taken[#topic.taken + 1] = topic.entry
  topic.ids[#topic.ids + 1] = id
  local value = redis.call('HGET', topic.hash, id)
  if not value then
    progress.lost[#progress.lost + 1] = { topic = topic.about.name, id = id }
    return
  end
  local text = delayed.text_of(value)
  topic.late_ms[#topic.late_ms + 1] = call.now_ms - topic.due_ms
  topic.bytes = topic.bytes + #text
  topic.held_bytes = topic.held_bytes + delayed.bytes_of(#text)
  return text
end

-- Counts the work of the topic itself, once in a call. Returns false if that would exceed the maximum of the call.
-- The first topic always fits. If its subscribers alone take half of the maximum or more, the maximum is raised to
-- twice the work of the topic, so that the call publishes more than one of its events.
local function begin_work(call, progress, topic)
  if topic.subscribers then return true end
  local subscribers = redis.call('SCARD', call.keys.topic_subscribers(topic.about.name))
  local work = WORK_OF.topic + subscribers * WORK_OF.subscriber
  if progress.work == 0 then
    progress.max_work = math.max(MAX_WORK, 2 * work)
  elseif progress.work + work > progress.max_work then
    return false
  end
  topic.subscribers, progress.work = subscribers, progress.work + work
  return true
end

-- Takes the events of a topic that are due by `until_ms`. Returns false if the work of the call was done before the
-- last of them.
local function take(call, progress, topic, until_ms)
  if not begin_work(call, progress, topic) then return false end
  local texts = {}
  while topic.due_ms <= until_ms and progress.work < progress.max_work do
    local text = take_entry(call, progress, topic)
    texts[#texts + 1] = text
    progress.work = progress.work + WORK_OF.event + topic.subscribers * WORK_OF.copy
      + (1 + topic.subscribers) * #(text or '') * WORK_OF.byte
    go_on(topic)
  end
  if #texts > 0 then
    intake.add(call, progress.taken, topic.about, { list = texts, first = 1, last = #texts })
  end
  return topic.due_ms > until_ms
end

-- Takes due events until the work of the call is done. Returns the topics, and whether due events are left.
local function take_all(call, progress)
  local all, until_ms = due_topics(call, progress)
  local topic, turn_ends_ms = first_topic(all, until_ms)
  while topic do
    if not take(call, progress, topic, turn_ends_ms) then return all, true end
    topic, turn_ends_ms = first_topic(all, until_ms)
  end
  return all, until_ms < call.now_ms
end

return function(call, args)
  local progress = { taken = intake.begin_unlimited(), work = 0, max_work = MAX_WORK, lost = {} }
  local all, is_left = take_all(call, progress)
  intake.end_run(progress.taken)
  storing.store(call, args.uid_seed, progress.taken)
  local published = {}
  for _, topic in ipairs(all) do
    local about = topic.about
    if #topic.ids > 0 then
      delayed.remove(call, about.publisher, about.name, topic.taken, topic.ids, topic.held_bytes)
      published[#published + 1] = {
        topic = about.name, events = about.events, bytes = topic.bytes,
        subscribers = table.concat(about.subscribers or {}, '\n'), late_ms = topic.late_ms,
      }
    end
  end
  return { published = published, lost = progress.lost, is_left = is_left }
end
