--[[
Topics: gives and deletes topics, begins and ends subscriptions, and keeps the list of the topics that a client owns.
]]
local delayed = include('flow/delayed/delayed')
local elsewhere = include('publishing/elsewhere')
local join_tokens = include('flow/joins/join_tokens')
local many = include('store/many')
local outboxes = include('publishing/outboxes')
local topics = {}

-- Number of topics that one EXISTS command checks.
local CHECKED_AT_ONCE = 100

-- Returns the token of the client that owns the topic, or nil if no client does.
function topics.publisher(call, topic)
  local publisher = redis.call('HGET', call.keys.topic(topic), 'publisher')
  return publisher and publisher ~= '' and publisher or nil
end

-- Returns why `client` may not change a topic, or nothing if it may. Only the topic's publisher and root (`client` is
-- nil) may change a topic.
function topics.refusal(call, topic, client)
  if redis.call('SISMEMBER', call.keys.topics(), topic) == 0 then return 'topic_not_found' end
  local publisher = topics.publisher(call, topic)
  if not client or publisher == client then return end
  -- The name of a removed topic stays until other partitions have ended their subscriptions to the topic. A client that
  -- repeats the removal in this time is told that the topic does not exist, not that the removal is forbidden.
  local was_removed = not publisher and redis.call('HEXISTS', call.keys.topic(topic), 'removed_before') == 1
  return was_removed and 'topic_not_found' or 'forbidden'
end

-- Ends the subscriptions to a topic in this partition. The subscriptions of joins stay, because joins continue to read
-- the topic. Returns the number of such joins, and how many subscriptions have ended.
function topics.end_subscriptions(call, topic)
  local keys, joined, ended = call.keys, {}, 0
  for _, token in ipairs(redis.call('SMEMBERS', keys.topic_subscribers(topic))) do
    if join_tokens.is_join(token) then
      joined[#joined + 1] = token
    else
      redis.call('SREM', keys.subscriber_topics(token), topic)
      ended = ended + 1
    end
  end
  redis.call('DEL', keys.topic_subscribers(topic))
  for _, token in ipairs(joined) do redis.call('SADD', keys.topic_subscribers(topic), token) end
  return #joined, ended
end

local function end_elsewhere(call, topic, marks)
  local outgoing = outboxes.begin()
  outboxes.add(outgoing, elsewhere.partitions(marks), 'end', topic, false)
  outboxes.store(call, outgoing)
  outboxes.note_end(call)
end

-- Deletes a topic with its delayed events, and ends its subscriptions in this partition. Returns:
--   - the number of deleted delayed events
--   - a list of the other partitions that must still end subscriptions to the topic (elsewhere.lua). The topic's name
--     stays, without a publisher, until these partitions have done so and no join reads the topic.
--   - how many subscriptions end, here and in other partitions. For other partitions, this is the number in the topic's
--     marks (elsewhere.lua), which include joins
--
-- The list is in the topic's hash. This function deletes the hash only after it has stored the outbox entry for the
-- partitions. So if Redis is killed in between, a repeated removal still finds the list.
function topics.remove(call, topic)
  local keys, publisher = call.keys, topics.publisher(call, topic)
  local marks = elsewhere.read(redis.call('HGET', keys.topic(topic), 'elsewhere'))
  local delayed_events = publisher and delayed.remove_topic(call, publisher, topic) or 0
  local joins, ended = topics.end_subscriptions(call, topic)
  if #marks > 0 then end_elsewhere(call, topic, marks) end
  if publisher then redis.call('SREM', keys.topics_owned(publisher), topic) end
  redis.call('DEL', keys.topic(topic))
  if #marks > 0 then
    elsewhere.store(call, topic, marks)
    redis.call('HSET', keys.topic(topic), 'removed_before', 1)
  elseif joins == 0 then
    redis.call('SREM', keys.topics(), topic)
  end
  local partitions = {}
  for i, mark in ipairs(marks) do partitions[i] = tonumber(mark.partition) end
  return delayed_events, partitions, ended + elsewhere.count(marks)
end

-- Makes a client the publisher of a topic, instead of the present one if there is any.
function topics.give(call, topic, client)
  local keys, before = call.keys, topics.publisher(call, topic)
  if before then
    delayed.give(call, topic, before, client)
    redis.call('SREM', keys.topics_owned(before), topic)
  end
  redis.call('SADD', keys.topics_owned(client), topic)
  redis.call('HSET', keys.topic(topic), 'publisher', client)
end

local function is_unused(call, topic)
  local publisher, marks = unpack(redis.call('HMGET', call.keys.topic(topic), 'publisher', 'elsewhere'))
  if publisher and publisher ~= '' or marks then return false end
  return redis.call('EXISTS', call.keys.topic_subscribers(topic)) == 0
end

function topics.remove_if_unused(call, topic)
  if is_unused(call, topic) then topics.remove(call, topic) end
end

-- True if the topics in `names` that do not exist yet would raise the number of topics above `max`.
function topics.have_no_room(call, names, max)
  local all, new = call.keys.topics(), 0
  if redis.call('SCARD', all) + #names <= max then return false end
  for _, topic in ipairs(names) do
    if redis.call('SISMEMBER', all, topic) == 0 then new = new + 1 end
  end
  return new > 0 and redis.call('SCARD', all) + new > max
end

-- Subscribes a subscriber to the given topics, and to no others. The topics in `names` live in this partition, and
-- those in `foreign` in other partitions.
function topics.subscribe_to(call, token, names, foreign)
  local keys, own = call.keys, call.keys.subscriber_topics(token)
  local wanted, left = {}, {}
  many.command('SADD', keys.topics(), names)
  for _, list in ipairs({ names, foreign }) do
    many.command('SADD', own, list)
    for _, topic in ipairs(list) do
      wanted[topic] = true
      redis.call('SADD', keys.topic_subscribers(topic), token)
    end
  end
  for _, topic in ipairs(redis.call('SMEMBERS', own)) do
    if not wanted[topic] then left[#left + 1] = topic end
  end
  topics.unsubscribe_from(call, token, left)
end

-- Returns the topics from `names[first]` to `names[last]` that have neither a publisher nor a subscription. First asks
-- by one EXISTS command whether any of them has data. If one has, looks up each topic, which takes Redis 3 µs for each.
local function unused_among(call, names, first, last)
  local keys, about = call.keys, {}
  for i = first, last do
    about[#about + 1] = keys.topic(names[i])
    about[#about + 1] = keys.topic_subscribers(names[i])
  end
  local none_is_known, unused = redis.call('EXISTS', unpack(about)) == 0, {}
  for i = first, last do
    if none_is_known or is_unused(call, names[i]) then unused[#unused + 1] = names[i] end
  end
  return unused
end

-- Ends the given subscriptions of a subscriber. A subscription is in two lists: the topic's list of subscribers, and
-- the subscriber's list of topics. The topic's list is changed first. If Redis is killed after that, a repeated call
-- still finds the subscription in the subscriber's list.
--
-- Topics that are left without a publisher and without a subscription are deleted. Otherwise a client could use up the
-- maximum number of topics by subscribing and unsubscribing.
function topics.unsubscribe_from(call, token, names)
  local keys = call.keys
  for _, topic in ipairs(names) do redis.call('SREM', keys.topic_subscribers(topic), token) end
  many.command('SREM', keys.subscriber_topics(token), names)
  for first = 1, #names, CHECKED_AT_ONCE do
    local unused = unused_among(call, names, first, math.min(first + CHECKED_AT_ONCE - 1, #names))
    local hashes = {}
    for i, topic in ipairs(unused) do hashes[i] = keys.topic(topic) end
    many.command('SREM', keys.topics(), unused)
    if #hashes > 0 then redis.call('DEL', unpack(hashes)) end
  end
end

return topics
