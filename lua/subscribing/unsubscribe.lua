#!lua flags=allow-oom
--[[
unsubscribe: end the subscription of one subscriber to one topic. Queued events are still delivered.

A topic without a publisher is deleted with its last subscription. If the subscriber, the topic or the subscription does
not exist, the reply says which. With `is_foreign`, the topic lives in another partition, and the caller checks there
whether it exists.
]]
local topics = include('subscribing/topics')

return function(call, args)
  local keys, token, topic = call.keys, args.token, args.topic
  if redis.call('SISMEMBER', keys.subscribers(), token) == 0 then return 'subscriber_not_found' end
  if not args.is_foreign and redis.call('SISMEMBER', keys.topics(), topic) == 0 then return 'topic_not_found' end
  local is_subscribed = redis.call('SISMEMBER', keys.subscriber_topics(token), topic) == 1
  -- Subscriptions are ended even if `is_subscribed` is false. If Redis was killed while it removed the topic, the
  -- topic's list of subscribers may still have the subscriber.
  topics.unsubscribe_from(call, token, { topic })
  return is_subscribed and 'ok' or 'not_subscribed'
end
