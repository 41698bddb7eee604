#!lua
--[[
publish_delayed: publish delayed events that are due.

The events are stored for the subscribers that their topics have now, as by publish.lua, and are removed from the
delayed events in the same step. Each call has a budget of work; work is an estimate of the time that Redis needs. When
the budget is spent, the call ends, and `is_left` says whether more events are due. While memory is exhausted Redis does
not run the script (no `allow-oom`), and the events wait. A topic that takes no events now, because `max_outbox_bytes`
wait for another partition (outboxes.lua), is tried again after a second.

Events are published in the order of their time over all topics, until a client has used its part of the budget. All
clients with due events have equal parts, so a client with many events does not keep others waiting. When all have used
their part, each gets another part. The events of one client always stay in order. `first_client` says which client
begins; the caller counts it from 0 while more events are due.

`published` has, for each topic, the number of its events, their bytes, the tokens of its subscribers (one on each
line), and by how many ms each event is late. `lost` has the topics and ids of entries without a text, which are
removed.
]]
local delayed = include('flow/delayed/delayed')
local due_topics = include('flow/delayed/due_topics')
local intake = include('publishing/intake')
local storing = include('publishing/storing')

-- The budget of work of one script call, in units of about 1 µs. Redis serves no other client during the call.
local MAX_WORK = 2500
-- Estimated work (µs of Redis) for each topic, each of its subscribers, each event, each copy (an event for one
-- subscriber), and each byte. The work for a subscriber includes opening a batch, which may be needed.
local WORK_OF = { topic = 12, subscriber = 12, event = 6, copy = 0.4, byte = 0.002 }
-- Maximum clients whose events one script call publishes.
local MAX_CLIENTS = 16

-- Takes the next event of a topic, and returns its text. If Redis was killed while the event was stored, the text may
-- be missing. Then returns nothing, and the script's reply names the event in `lost`.
local function take_entry(call, progress, topic)
  local id = delayed.id_of(topic.entry)
  topic.taken_entries[#topic.taken_entries + 1] = topic.entry
  topic.ids[#topic.ids + 1] = id
  local value = redis.call('HGET', topic.hash, id)
  if not value then
    progress.lost[#progress.lost + 1] = { topic = topic.intake_topic.name, id = id }
    return
  end
  local text = delayed.text_of(value)
  topic.late_ms[#topic.late_ms + 1] = call.now_ms - topic.due_ms
  topic.held_bytes = topic.held_bytes + delayed.bytes_of(#text)
  return text
end

local function count_work(progress, client, work)
  progress.work, client.work = progress.work + work, client.work + work
end

-- Counts the work for a topic and its subscribers, before the first event of the topic is taken. Returns false, and
-- counts nothing, if the call would need more than its budget (µs of Redis).
--
-- The first topic of a call is always accepted. If it costs more than half of the budget, the budget becomes twice its
-- cost, to leave room for its events. Example: a topic with 1,000 subscribers costs 12 + 1,000 × 12 = 12,012 µs, so the
-- budget becomes 24,024 µs.
local function begin_work(progress, client, topic)
  if topic.is_begun then return true end
  local work = WORK_OF.topic + topic.subscribers * WORK_OF.subscriber
  if progress.work == 0 then
    progress.max_work = math.max(MAX_WORK, 2 * work)
  elseif progress.work + work > progress.max_work then
    return false
  end
  topic.is_begun = true
  progress.topics[#progress.topics + 1] = topic
  count_work(progress, client, work)
  return true
end

-- Takes events that are due until `until_ms` from the topic `client.first`. Stops earlier when the client has used its
-- part of the call's budget. Returns false if the script call must end: the budget is spent, or too little of it is
-- left to begin this topic.
local function take(call, progress, client, until_ms)
  local topic, texts = client.first, {}
  if not begin_work(progress, client, topic) then return false end
  local part = progress.max_work / progress.clients
  repeat
    local text = take_entry(call, progress, topic)
    texts[#texts + 1] = text
    count_work(progress, client, WORK_OF.event + topic.subscribers * WORK_OF.copy
      + (1 + topic.subscribers) * #(text or '') * WORK_OF.byte)
    due_topics.go_on(topic)
  until topic.due_ms > until_ms or progress.work >= progress.max_work or client.work >= part
  if #texts > 0 then intake.add_texts(call, progress.intake_state, topic.intake_topic, texts) end
  due_topics.find_first(call, client)
  return progress.work < progress.max_work
end

-- Returns the client with the earliest due event, and a time (ms). Until this time, which is now at the latest, only
-- the client's topic `first` has due events, so they may be taken from it. Clients that have used their part of the
-- budget do not count. When all have used it, each gets another part. Returns nothing if no event is due.
local function next_client(progress, clients)
  local part = progress.max_work / progress.clients
  for _ = 1, 2 do
    local waiting = {}
    for _, client in ipairs(clients) do
      if client.first and client.work < part then waiting[#waiting + 1] = client end
    end
    local first, next_ms = due_topics.earliest(waiting)
    if first then return first, math.min(next_ms, first.until_ms) end
    for _, client in ipairs(clients) do client.work = 0 end
  end
end

-- Takes due events until the call's budget of work is spent. Returns true if due events are left. Each call begins with
-- another client (`first_client`). Otherwise the same client could use up the budget of every call, if its events have
-- many subscribers.
local function take_all(call, progress, first_client)
  local all, is_left = due_topics.clients(call, progress.intake_state)
  local clients = {}
  for i = 1, math.min(#all, MAX_CLIENTS) do
    clients[i] = all[(first_client + i - 1) % #all + 1]
    due_topics.find_first(call, clients[i])
  end
  progress.clients = #clients
  local client = clients[1] and clients[1].first and clients[1]
  local until_ms = client and client.first.due_ms
  if not client then client, until_ms = next_client(progress, clients) end
  while client do
    if not take(call, progress, client, until_ms) then return true end
    client, until_ms = next_client(progress, clients)
  end
  return is_left or #all > #clients
end

return function(call, args)
  local intake_state = intake.begin(args)
  local progress = { intake_state = intake_state, topics = {}, clients = 0, work = 0, max_work = MAX_WORK, lost = {} }
  local is_left = take_all(call, progress, args.first_client)
  storing.store(call, args.uid_seed, progress.intake_state)
  local published = {}
  for i, topic in ipairs(progress.topics) do
    local intake_topic = topic.intake_topic
    delayed.remove(call, intake_topic.publisher, intake_topic.name, topic.taken_entries, topic.ids, topic.held_bytes)
    published[i] = {
      topic = intake_topic.name, events = intake_topic.events, bytes = intake_topic.bytes,
      subscribers = table.concat(intake_topic.subscribers or {}, '\n'), late_ms = topic.late_ms,
    }
  end
  return { published = published, lost = progress.lost, is_left = is_left }
end
