#!lua
--[[
publish_delayed: publish delayed events that are due.

The events are stored for the subscribers that their topics have now, as by publish.lua, and are removed from the
delayed events in the same step. Each call has a budget of work; work is an estimate of the time that Redis needs. When
the budget is spent, the call ends, and `is_left` says whether more events are due. While memory is exhausted Redis does
not run the script (no `allow-oom`), and the events wait. A topic that takes no events now, because `max_outbox_bytes`
wait for another partition (outboxes.lua), is tried again after a second.

All clients with due events have equal parts of the budget, so that a client with many events does not keep others
waiting. The next event is always the one that is due first, of the clients that have used the fewest whole parts
(`next_client`). So the events of one client stay in the order of their time, and those of all clients do until one has
used its part. Example: A has 1,000 events that are due at 10:00, B has two that are due at 10:01, and the budget is
2,500. So each part is 1,250. First come events of A, until they have taken 1,250, then both of B, then A's again,
because B has no more.

Each call begins with the first event of another client, whenever that is due. Otherwise the same client could use up
the budget of every call, if its events have many subscribers. `first_client` says which client begins; the caller
counts it from 0 while more events are due.

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
-- subscriber), and each byte. The work for a subscriber includes opening a batch, which may be needed. 25 µs were
-- measured for a topic with one delayed event, and 45 for one with 20.
local WORK_OF = { topic = 40, subscriber = 12, event = 6, copy = 0.4, byte = 0.002 }
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
-- begins nothing, if the call would need more than its budget (µs of Redis).
--
-- The first topic of a call is always accepted. If it costs more than half of the budget, the budget becomes twice its
-- cost, to leave room for events. Example: a topic with 1,000 subscribers costs 40 + 1,000 × 12 = 12,040 µs, so the
-- budget becomes 24,080 µs.
local function begin_topic(progress, client, topic)
  if topic.is_begun then return true end
  local work = WORK_OF.topic + topic.subscribers * WORK_OF.subscriber
  if progress.work == 0 then
    progress.max_work = math.max(MAX_WORK, 2 * work)
  elseif progress.work + work > progress.max_work then
    return false
  end
  topic.is_begun = true
  progress.begun[#progress.begun + 1] = topic
  count_work(progress, client, work)
  return true
end

-- Chooses the client whose events are published next. Each client has an equal part of the budget, and gets another one
-- when it has used it. Of the clients that have used the fewest parts, the one with the earliest event is chosen.
-- Returns the client, `until_ms` and `until_work`. The caller must choose again when the client's next event is later
-- than `until_ms`, or when its work reaches `until_work`. Returns nothing if no event is due.
local function next_client(progress, clients)
  local part, chosen, least_parts, until_ms = progress.max_work / #clients, nil, math.huge, math.huge
  for _, client in ipairs(clients) do
    local topic, used_parts = client.next_topic, math.floor(client.work / part)
    if topic and used_parts < least_parts then
      chosen, least_parts, until_ms = client, used_parts, math.huge
    elseif topic and used_parts == least_parts then
      local other = client
      if topic.due_ms < chosen.next_topic.due_ms then chosen, other = client, chosen end
      until_ms = math.min(until_ms, other.next_topic.due_ms)
    end
  end
  return chosen, until_ms, (least_parts + 1) * part
end

-- Takes events of `client.next_topic`, until the client's next event is one of another topic, `next_client` must choose
-- again (see there), or the budget is spent.
local function take(call, progress, client, until_ms, until_work)
  local topic, texts = client.next_topic, {}
  repeat
    local text = take_entry(call, progress, topic)
    texts[#texts + 1] = text
    count_work(progress, client, WORK_OF.event + topic.subscribers * WORK_OF.copy
      + (1 + topic.subscribers) * #(text or '') * WORK_OF.byte)
    due_topics.go_on(topic)
    due_topics.find_next_topic(call, progress.intake_state, client)
  until client.next_topic ~= topic or topic.due_ms > until_ms or client.work >= until_work
    or progress.work >= progress.max_work
  if #texts > 0 then intake.add_texts(call, progress.intake_state, topic.intake_topic, texts) end
end

-- Takes due events until the call's budget of work is spent. Returns true if due events are left.
local function take_all(call, progress, first_client)
  local all, is_left = due_topics.clients(call)
  local clients = {}
  for i = 1, math.min(#all, MAX_CLIENTS) do
    clients[i] = all[(first_client + i - 1) % #all + 1]
    due_topics.find_next_topic(call, progress.intake_state, clients[i])
  end
  local begins = clients[1]
  local client, until_ms, until_work = next_client(progress, clients)
  -- Only the first event of the client that begins comes out of turn.
  if begins and begins.next_topic then client, until_ms = begins, 0 end
  while client do
    if not begin_topic(progress, client, client.next_topic) then return true end
    take(call, progress, client, until_ms, until_work)
    if progress.work >= progress.max_work then return true end
    client, until_ms, until_work = next_client(progress, clients)
  end
  return is_left or #all > #clients
end

return function(call, args)
  local intake_state = intake.begin(args)
  local progress = { intake_state = intake_state, begun = {}, work = 0, max_work = MAX_WORK, lost = {} }
  local is_left = take_all(call, progress, args.first_client)
  storing.store(call, args.uid_seed, progress.intake_state)
  local published = {}
  for i, topic in ipairs(progress.begun) do
    local intake_topic = topic.intake_topic
    delayed.remove(call, intake_topic.publisher, intake_topic.name, topic.taken_entries, topic.ids, topic.held_bytes)
    published[i] = {
      topic = intake_topic.name, events = intake_topic.events, bytes = intake_topic.bytes,
      subscribers = table.concat(intake_topic.subscribers or {}, '\n'), late_ms = topic.late_ms,
    }
  end
  return { published = published, lost = progress.lost, is_left = is_left }
end
