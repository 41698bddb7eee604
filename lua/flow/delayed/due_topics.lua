--[[
Due topics: finds the topics that have due events (delayed events whose time has come), and groups them by the client
that publishes to them.

A client is a table here. `unread` lists its topics by the time of their first event; those from `unread_at` on are not
read yet. `read_topics` has those that were read and have due events. `next_topic` is the one whose next event is due
first; it is nil if no event is due. The script adds the work done for the client (`work`, `used_parts`).
]]
local agenda = include('flow/agenda')
local calls = include('store/calls')
local delayed = include('flow/delayed/delayed')
local intake = include('publishing/intake')
local topics = include('subscribing/topics')
local due_topics = {}

local DELAYED_PER_READ = 20
-- Maximum number of topics that a script call looks at, the earliest due ones first. By default this is twice the
-- number of topics that one client may own. So even if all topics of one client are due first, those of other clients
-- are looked at too. Looking at 2,000 topics takes Redis about 3 ms.
local MAX_TOPICS = 2000

-- Sets `topic.entry` and `topic.due_ms` to the entry and the time of the topic's next delayed event. After the last
-- event, `due_ms` is infinite.
local function go_to_next_event(topic)
  if topic.at >= #topic.entries then
    topic.entries = redis.call('ZRANGE', topic.due, topic.read, topic.read + DELAYED_PER_READ - 1, 'WITHSCORES')
    topic.at, topic.read = 0, topic.read + #topic.entries / 2
  end
  topic.entry, topic.due_ms = topic.entries[topic.at + 1], tonumber(topic.entries[topic.at + 2]) or math.huge
  topic.at = topic.at + 2
end

-- Returns a table for reading a topic's delayed events one by one. `intake_topic` is the topic's table from intake.lua,
-- and `subscribers` the number of its subscribers in this partition. Throws if a key that publishing needs has the
-- wrong type. The caller then leaves the topic out, so that it does not hold up the events of other topics.
local function read_topic(call, intake_topic)
  local keys, name = call.keys, intake_topic.name
  local topic = {
    intake_topic = intake_topic, due = keys.delayed_due(name), hash = keys.delayed_events(name),
    subscribers = redis.call('SCARD', keys.topic_subscribers(name)),
    entries = {}, at = 0, read = 0,
  }
  redis.call('HLEN', topic.hash)
  go_to_next_event(topic)
  return topic
end

-- Reads the next topic in the client's list `unread`. If no event of the topic can be published now, changes the
-- topic's entry in `delayed:topics`:
--   - If the events must go to another partition, for which too many bytes wait already, the topic is postponed.
--   - If no event is due, the time of the entry is corrected.
--   - If the topic cannot be read, the entry is removed; the sweep repairs the topic later.
local function read_next(call, intake_state, client)
  local name = client.unread[client.unread_at].name
  client.unread_at = client.unread_at + 1
  local intake_topic = calls.throw_wrong_type_later(call, intake.topic, intake_state, name)
  if intake_topic and intake.outbox_refusal(call, intake_state, intake_topic) then
    agenda.postpone(call, call.keys.delayed_topics(), name)
    return
  end
  local topic = intake_topic and calls.throw_wrong_type_later(call, read_topic, intake_topic)
  if not topic then
    redis.call('ZREM', call.keys.delayed_topics(), name)
  elseif topic.due_ms > call.now_ms then
    delayed.enter_topic(call, name)
  else
    client.read_topics[#client.read_topics + 1] = topic
  end
end

local function earliest(topics)
  local first
  for _, topic in ipairs(topics) do
    if not first or topic.due_ms < first.due_ms then first = topic end
  end
  return first
end

-- Sets `client.next_topic` to the topic that has the earliest due event of the client, or to nil if no event is due.
--
-- A client can have a thousand topics, so as few as possible are read. The list `unread` is in the order of the topics'
-- first events. Reading stops when the first event of the next topic would not be earlier than the earliest event
-- found.
function due_topics.find_next_topic(call, intake_state, client)
  while true do
    local first, unread = earliest(client.read_topics), client.unread[client.unread_at]
    if not unread or first and first.due_ms <= unread.due_ms then
      client.next_topic = first and first.due_ms <= call.now_ms and first or nil
      return
    end
    read_next(call, intake_state, client)
  end
end

-- Goes on to the next event of a client, after the present one has been taken.
function due_topics.go_on(call, intake_state, client)
  go_to_next_event(client.next_topic)
  due_topics.find_next_topic(call, intake_state, client)
end

-- Returns the clients whose topics have due events, the client with the earliest event first. Also returns true if
-- there may be more due topics than this script call looks at. A topic that has no publisher or cannot be read is
-- removed from `delayed:topics`; the sweep repairs it later.
function due_topics.clients(call)
  local now, clients, by_token = string.format('%d', call.now_ms), {}, {}
  local due = redis.call(
    'ZRANGE', call.keys.delayed_topics(), '-inf', now, 'BYSCORE', 'LIMIT', 0, MAX_TOPICS, 'WITHSCORES'
  )
  for i = 1, #due, 2 do
    -- Only the publisher is read, because a call looks at many topics, but publishes events of few.
    local token = calls.throw_wrong_type_later(call, topics.publisher, due[i])
    if token then
      local client = by_token[token]
      if not client then
        client = { unread = {}, unread_at = 1, read_topics = {}, next_topic = nil }
        by_token[token] = client
        clients[#clients + 1] = client
      end
      client.unread[#client.unread + 1] = { name = due[i], due_ms = tonumber(due[i + 1]) }
    else
      redis.call('ZREM', call.keys.delayed_topics(), due[i])
    end
  end
  return clients, #due == 2 * MAX_TOPICS
end

return due_topics
