#!lua flags=allow-oom
--[[
unsubscribe: end the subscription of one subscriber to one topic. Queued events are still delivered.

A topic without a publisher is deleted with its last subscription. If the subscriber, the topic or the subscription does
not exist, the reply says which, and nothing changes. A topic that `is_foreign` lives in another partition, so this
script cannot say that it does not exist; the caller asks there.
]]
local topics = include('subscribing/topics')

return function(call, args)
  local keys, token, topic = call.keys, args.token, args.topic
  if redis.call('SISMEMBER', keys.subscribers(), token) == 0 then return 'subscriber_not_found' end
  if not args.is_foreign and redis.call('SISMEMBER', keys.topics(), topic) == 0 then return 'topic_not_found' end
  if redis.call('SISMEMBER', keys.subscriber_topics(token), topic) == 0 then
    -- If Redis has kept only the first writes of a deletion of the topic, the topic may still list the subscriber.
    redis.call('SREM', keys.topic_subscribers(topic), token)
    return 'not_subscribed'
  end
  topics.unsubscribe_from(call, token, { topic })
  return 'ok'
end
