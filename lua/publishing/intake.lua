--[[
Intake: decides which publications of one script call are accepted, and which of their events each subscriber gets.
]]
local client_quota = include('authentication/client_quota')
local elsewhere = include('publishing/elsewhere')
local open_batches = include('delivering/open_batches')
local outboxes = include('publishing/outboxes')
local intake = {}

-- Creates the working state (`intake_state`) of a script call that accepts events. `args` has the limits that the
-- script uses; without `max_outbox_bytes`, outboxes have no limit. Some fields:
--   accepted      topics that got events
--   current_run   the events of the latest publications in a row to one topic (`run_topic`). Example: after
--                 publications to the topics A, B and B, the events of the last two
--   events_of     the list of events that each subscriber gets, by token. Several subscribers may share a list
--   has_own       true for each subscriber that shares its list with no other, by token
--   fingerprints  fingerprints of the accepted publications, by the digest of their idempotency key
--   outgoing      outbox entries for other partitions (outboxes.lua)
function intake.begin(args)
  return {
    topics = {}, accepted = {}, tokens = {}, events_of = {}, has_own = {}, fingerprints = {},
    outgoing = outboxes.begin(), quota = false,
    max_topics = args.max_topics, max_client_topics = args.max_client_topics, max_outbox_bytes = args.max_outbox_bytes,
    max_client_keys = args.max_client_keys, idempotency_window_ms = args.idempotency_window_ms,
  }
end

-- Appends the items of the list `more` to `list`, and returns `list`.
local function append(list, more)
  local length = #list
  for i = 1, #more do list[length + i] = more[i] end
  return list
end

-- Returns a topic that lives in this partition.
function intake.topic(call, intake_state, name)
  local topic = intake_state.topics[name]
  if not topic then
    local publisher, marks = unpack(redis.call('HMGET', call.keys.topic(name), 'publisher', 'elsewhere'))
    topic = {
      name = name, publisher = publisher, elsewhere = elsewhere.read(marks), events = 0, bytes = 0, subscribers = false,
    }
    intake_state.topics[name] = topic
  end
  return topic
end

-- Returns a topic that lives in another partition. This partition may have subscribers of it.
function intake.foreign_topic(intake_state, name)
  local topic = intake_state.topics[name]
  if not topic then
    topic = { name = name, elsewhere = {}, events = 0, bytes = 0, is_foreign = true }
    intake_state.topics[name] = topic
  end
  return topic
end

local function is_free(topic)
  return not topic.publisher or topic.publisher == ''
end

local function is_new(call, topic)
  return redis.call('SISMEMBER', call.keys.topics(), topic.name) == 0
end

-- Returns why a client may not publish to a topic, or nothing if it may. If the topic has no publisher, the limits on
-- topics are checked too, because the client would become the publisher.
local function judge_client(call, intake_state, topic, client)
  if not is_free(topic) then return topic.publisher ~= client and 'claimed_by_other' or nil end
  local keys = call.keys
  if is_new(call, topic) and redis.call('SCARD', keys.topics()) >= intake_state.max_topics then return 'no_room' end
  if redis.call('SCARD', keys.topics_owned(client)) >= intake_state.max_client_topics then return 'owns_too_many' end
end

-- Makes the client the publisher of a topic. The field `publisher` is written last: if Redis is killed before that, the
-- topic has no publisher yet, and the next publication claims it again.
local function claim(call, topic, client)
  redis.call('SADD', call.keys.topics(), topic.name)
  redis.call('SADD', call.keys.topics_owned(client), topic.name)
  redis.call('HSET', call.keys.topic(topic.name), 'publisher', client)
  topic.publisher = client
end

-- Checks the idempotency key of a publication. Returns 'repeated' if the key was used for the same publication,
-- 'key_reused' if it was used for another one, and 'too_many_keys' if the client has used up its quota of new keys.
-- Otherwise returns nothing.
local function judge_key(call, intake_state, publication)
  local digest = publication.digest
  if not digest then return end
  local before = intake_state.fingerprints[digest] or redis.call('GET', call.keys.idempotency(digest))
  if before then return before == publication.fingerprint and 'repeated' or 'key_reused' end
  local max_keys, window_ms = intake_state.max_client_keys, intake_state.idempotency_window_ms
  intake_state.quota = intake_state.quota or client_quota.begin(call, call.keys.idempotency_quota, max_keys, window_ms)
  if client_quota.is_empty(intake_state.quota, publication.client) then return 'too_many_keys' end
end

-- Ends the current run, the latest events in a row that are for one topic. Gives these events to the topic's
-- subscribers, and to the other partitions that have such subscribers. To save time, all subscribers that got no other
-- events in this script call share the list of the run. Each of the others gets a list of its own.
function intake.end_run(intake_state)
  local run = intake_state.current_run
  if not run then return end
  local events_of, has_own = intake_state.events_of, intake_state.has_own
  for _, token in ipairs(intake_state.run_topic.subscribers) do
    if not events_of[token] then
      events_of[token] = run
      intake_state.tokens[#intake_state.tokens + 1] = token
    elseif has_own[token] then
      append(events_of[token], run)
    else
      events_of[token], has_own[token] = append(append({}, events_of[token]), run), true
    end
  end
  if #intake_state.run_topic.elsewhere > 0 then
    local others = elsewhere.partitions(intake_state.run_topic.elsewhere)
    -- The outbox gets a copy, because the list `run` has a field `bytes` (open_batches.bytes_of), which must not get
    -- into the outbox.
    outboxes.add(intake_state.outgoing, others, 'events', intake_state.run_topic.name, append({}, run))
  end
  intake_state.current_run = nil
end

-- Adds events that the subscribers of a topic will get when storing.lua stores them. Returns the bytes of these events.
-- The caller must not use the list `events` any more, because later calls of this function may append to it.
function intake.add(call, intake_state, topic, events)
  if not topic.subscribers then
    topic.subscribers = redis.call('SMEMBERS', call.keys.topic_subscribers(topic.name))
    intake_state.accepted[#intake_state.accepted + 1] = topic
  end
  local bytes, run = open_batches.bytes_of(events, 1) - #events, intake_state.current_run
  topic.events, topic.bytes = topic.events + #events, topic.bytes + bytes
  if run and intake_state.run_topic == topic then
    append(run, events).bytes = run.bytes + events.bytes
  else
    intake.end_run(intake_state)
    intake_state.current_run = events
    intake_state.run_topic = topic
  end
  return bytes
end

-- Returns 'outbox_full' if the topic has subscribers in another partition, and too many bytes already wait to be sent
-- there. A topic is checked once in a script call, because one call adds few bytes compared with the maximum.
function intake.outbox_refusal(call, intake_state, topic)
  local max_bytes = intake_state.max_outbox_bytes
  if #topic.elsewhere == 0 or not max_bytes then return end
  if topic.is_outbox_full == nil then
    topic.is_outbox_full = outboxes.are_full(call, intake_state.outgoing, topic.elsewhere, max_bytes)
  end
  return topic.is_outbox_full and 'outbox_full' or nil
end

-- Returns why a publication is refused, or nothing if it may be accepted. Changes nothing in Redis.
function intake.judge(call, intake_state, publication)
  local topic = intake.topic(call, intake_state, publication.topic)
  return judge_key(call, intake_state, publication)
    or judge_client(call, intake_state, topic, publication.client)
    or intake.outbox_refusal(call, intake_state, topic)
end

-- Decides whether a client may publish to all of these topics. Returns the reason for a refusal and the refused topic,
-- or nothing. Changes nothing in Redis. Each topic without a publisher counts against the limits. Example: if the
-- client may own only one more topic, the second such topic is refused.
function intake.judge_all(call, intake_state, client, names)
  for _, name in ipairs(names) do
    local reason = intake.judge(call, intake_state, { topic = name, client = client })
    if reason then return reason, name end
    local topic = intake.topic(call, intake_state, name)
    if is_free(topic) then
      intake_state.max_client_topics = intake_state.max_client_topics - 1
      if is_new(call, topic) then intake_state.max_topics = intake_state.max_topics - 1 end
    end
  end
end

-- Accepts a publication that `judge` has permitted: makes the client the publisher of the topic if the topic has none,
-- and notes the idempotency key. The caller adds the events. Returns the topic.
function intake.accept(call, intake_state, publication)
  local topic = intake.topic(call, intake_state, publication.topic)
  if is_free(topic) then claim(call, topic, publication.client) end
  if publication.digest then
    intake_state.fingerprints[publication.digest] = publication.fingerprint
    client_quota.take(intake_state.quota, publication.client)
  end
  return topic
end

-- Returns the number of subscribers of a topic in all partitions. `intake.add` must have been called for the topic.
function intake.count_subscribers(topic)
  return #topic.subscribers + elsewhere.count(topic.elsewhere)
end

-- Stores the idempotency keys of the accepted publications. This must be the last step of a script: if an earlier step
-- fails, the publications can be sent again under the same keys.
function intake.remember(call, intake_state)
  for digest, fingerprint in pairs(intake_state.fingerprints) do
    redis.call('SET', call.keys.idempotency(digest), fingerprint, 'PX', intake_state.idempotency_window_ms)
  end
  if intake_state.quota then client_quota.store(intake_state.quota) end
end

return intake
