--[[
Topics: deletes topics, and keeps the list of the topics that each client owns.
]]
local topics = {}

-- Returns the token of the client that owns the topic; nil if no client does.
function topics.publisher(call, topic)
  local publisher = redis.call('HGET', call.keys.topic(topic), 'publisher')
  return publisher and publisher ~= '' and publisher or nil
end

-- Deletes a topic, and ends its subscriptions.
function topics.remove(call, topic)
  local keys, publisher = call.keys, topics.publisher(call, topic)
  for _, token in ipairs(redis.call('SMEMBERS', keys.topic_subscribers(topic))) do
    redis.call('SREM', keys.subscriber_topics(token), topic)
  end
  if publisher then redis.call('SREM', keys.topics_owned(publisher), topic) end
  redis.call('DEL', keys.topic_subscribers(topic), keys.topic(topic))
  redis.call('SREM', keys.topics(), topic)
end

-- Deletes a topic that has neither a publisher nor a subscription. Otherwise changes nothing.
function topics.remove_if_unused(call, topic)
  if topics.publisher(call, topic) then return end
  if redis.call('EXISTS', call.keys.topic_subscribers(topic)) == 0 then topics.remove(call, topic) end
end

-- Ends one subscription. A topic without a publisher is deleted with its last subscription; otherwise its
-- name would stay taken, and only root could delete it. Returns false if there is no such subscription.
function topics.unsubscribe(call, token, topic)
  if redis.call('SREM', call.keys.subscriber_topics(token), topic) == 0 then return false end
  redis.call('SREM', call.keys.topic_subscribers(topic), token)
  topics.remove_if_unused(call, topic)
  return true
end

return topics
