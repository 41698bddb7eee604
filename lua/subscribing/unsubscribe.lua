#!lua flags=allow-oom
--[[
unsubscribe: end the subscription of one subscriber to one topic. Queued events are still delivered.

If the subscriber, the topic or the subscription does not exist, the reply names which, and nothing changes.
]]
return function(call, args)
  local keys, token, topic = call.keys, args.token, args.topic
  if redis.call('SISMEMBER', keys.subscribers(), token) == 0 then return 'subscriber_not_found' end
  if redis.call('SISMEMBER', keys.topics(), topic) == 0 then return 'topic_not_found' end
  if redis.call('SREM', keys.subscriber_topics(token), topic) == 0 then return 'not_subscribed' end
  redis.call('SREM', keys.topic_subscribers(topic), token)
  return 'ok'
end
