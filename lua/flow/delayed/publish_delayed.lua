#!lua
--[[
publish_delayed: publish delayed events that are due.

The events are stored for the subscribers that their topics have now, as by publish.lua, and are removed from the
delayed events in the same step. Each call has a budget of work; work is an estimate of the time that Redis needs. When
the budget is spent, the call ends, and `is_left` says whether more events are due. While memory is exhausted Redis does
not run the script (no `allow-oom`), and the events wait. A topic that takes no events now, because `max_outbox_bytes`
wait for another partition (outboxes.lua), is tried again after a second.

All clients with due events have equal parts of the budget, so that a client with many events does not keep others
waiting. The next event is the earliest one of the clients that have used the fewest whole parts (`is_before`). So the
events of one client stay in the order of their time. Those of different clients do too, until a client has used its
part. Example: A has 1,000 events that are due at 10:00, B has two that are due at 10:01, and the budget is 2,500. So
each part is 1,250. First come events of A, until they have taken 1,250, then both of B, then A's again, because B has
no more.

Each call begins with the first event of another client, whenever that is due. Otherwise the same client could use up
the budget of every call, if its events have many subscribers. `first_client` says which client begins: it is 0 in the
first call, and one higher in each further call while more events are due.

`published` has each topic that got events (storing.lua), and by how many ms each event is late. `lost` has the topics
and ids of entries without a text, which are removed.
]]
local delayed = include('flow/delayed/delayed')
local due_topics = include('flow/delayed/due_topics')
local intake = include('publishing/intake')
local storing = include('publishing/storing')

-- The budget of work of one script call, in units of about 1 µs. It is limited because Redis serves no client during
-- the call.
local MAX_WORK = 2500
-- Estimated work (µs of Redis) for each topic, each of its subscribers, each event, each copy (an event for one
-- subscriber), and each byte. The work for a subscriber includes opening a batch, which may be needed. 25 to 45 µs were
-- measured for a topic without subscribers.
local WORK_OF = { topic = 40, subscriber = 12, event = 6, copy = 0.4, byte = 0.002 }
-- Maximum number of clients whose events one script call publishes.
local MAX_CLIENTS = 16

-- Returns the work of beginning a topic: for the topic itself and for its subscribers, without its events.
local function work_to_begin(topic)
  return WORK_OF.topic + topic.subscribers * WORK_OF.subscriber
end

-- Returns the clients whose events this call publishes. Also returns true if further clients may have due events.
local function choose_clients(call, intake_state, first_client)
  local all, is_left = due_topics.clients(call)
  local clients = {}
  for i = 1, math.min(#all, MAX_CLIENTS) do
    local client = all[(first_client + i - 1) % #all + 1]
    due_topics.find_next_topic(call, intake_state, client)
    if client.next_topic then
      -- With -1, the first client comes before all others. When the client's first topic is begun, `count_work` sets
      -- `used_parts` to 0 or more.
      client.work, client.used_parts = 0, #clients == 0 and -1 or 0
      clients[#clients + 1] = client
    end
  end
  return clients, is_left or #all > MAX_CLIENTS
end

-- Creates the state of a script call (`progress`). Some fields:
--   work, max_work  the work that is done, and the budget of work
--   part            the part of the budget that each client has
--   taken           for each topic, by name: the `entries` and `ids` of the events to remove. Only for events with a
--                   text: how late each is (`late_ms`), and the memory that all of them take (`held_bytes`)
--
-- If the first topic costs more than half of the budget, the budget becomes twice its cost, to leave room for events.
-- Example: a topic with 1,000 subscribers costs 40 + 1,000 × 12 = 12,040 µs, so the budget becomes 24,080 µs.
local function begin(intake_state, clients)
  local max_work = clients[1] and math.max(MAX_WORK, 2 * work_to_begin(clients[1].next_topic)) or MAX_WORK
  local part = max_work / #clients
  return { intake_state = intake_state, work = 0, max_work = max_work, part = part, taken = {}, lost = {} }
end

local function count_work(progress, client, work)
  progress.work, client.work = progress.work + work, client.work + work
  client.used_parts = math.floor(client.work / progress.part)
end

-- Begins to take events of a client's next topic, unless this is done already. Returns false if the topic would cost
-- more than what is left of the budget.
local function begin_topic(progress, client)
  local name, work = client.next_topic.intake_topic.name, work_to_begin(client.next_topic)
  if progress.taken[name] then return true end
  if progress.work + work > progress.max_work then return false end
  progress.taken[name] = { entries = {}, ids = {}, late_ms = {}, held_bytes = 0 }
  count_work(progress, client, work)
  return true
end

-- Returns true if the next event of the client `one` is published before that of `other`.
local function is_before(one, other)
  if one.used_parts ~= other.used_parts then return one.used_parts < other.used_parts end
  return one.next_topic.due_ms < other.next_topic.due_ms
end

-- Returns the client whose events are published next, and the client that follows. They are nil if there are none.
local function next_clients(clients)
  local first, second
  for _, client in ipairs(clients) do
    if client.next_topic and (not first or is_before(client, first)) then
      first, second = client, first
    elseif client.next_topic and (not second or is_before(client, second)) then
      second = client
    end
  end
  return first, second
end

-- Takes the next event of a topic, and returns its text. Returns nothing if the text is missing, as it may be if Redis
-- was killed while the event was stored. The script's reply then names the event in `lost`.
local function take_event(call, progress, topic)
  local name, id = topic.intake_topic.name, delayed.id_of(topic.entry)
  local taken = progress.taken[name]
  taken.entries[#taken.entries + 1], taken.ids[#taken.ids + 1] = topic.entry, id
  local value = redis.call('HGET', topic.hash, id)
  if not value then
    progress.lost[#progress.lost + 1] = { topic = name, id = id }
    return
  end
  local text = delayed.text_of(value)
  taken.late_ms[#taken.late_ms + 1] = call.now_ms - topic.due_ms
  taken.held_bytes = taken.held_bytes + delayed.bytes_of(#text)
  return text
end

-- Takes events of a client's next topic. Stops when another topic of the client is next, when the client `following` is
-- next, or when the budget of work is spent. After each event, only `following` is compared with the client: comparing
-- all clients made a burst of 16 clients take 40 % more time.
local function take_events(call, progress, client, following)
  local topic, texts = client.next_topic, {}
  repeat
    local text = take_event(call, progress, topic)
    texts[#texts + 1] = text
    count_work(progress, client, WORK_OF.event + topic.subscribers * WORK_OF.copy
      + (1 + topic.subscribers) * #(text or '') * WORK_OF.byte)
    due_topics.go_on(call, progress.intake_state, client)
  until client.next_topic ~= topic or following and is_before(following, client)
    or progress.work >= progress.max_work
  if #texts > 0 then intake.add(call, progress.intake_state, topic.intake_topic, texts) end
end

-- Takes due events until the budget of work is spent. Returns true if due events are left.
local function take_all(call, progress, clients)
  local client, following = next_clients(clients)
  while client do
    if progress.work >= progress.max_work or not begin_topic(progress, client) then return true end
    take_events(call, progress, client, following)
    client, following = next_clients(clients)
  end
  return false
end

return function(call, args)
  local intake_state = intake.begin(args)
  local clients, has_others = choose_clients(call, intake_state, args.first_client)
  local progress = begin(intake_state, clients)
  local is_left = take_all(call, progress, clients) or has_others
  storing.store(call, args.uid_seed, progress.intake_state)
  for name, taken in pairs(progress.taken) do
    local publisher = intake_state.topics[name].publisher
    delayed.remove(call, publisher, name, taken.entries, taken.ids, taken.held_bytes)
  end
  local published = storing.published(intake_state)
  for _, each in ipairs(published) do each.late_ms = progress.taken[each.topic].late_ms end
  return { published = published, lost = progress.lost, is_left = is_left }
end
