#!lua flags=allow-oom
--[[
unsubscribe: end one subscription. What is queued is still delivered.
]]
return function(call, args)
  local keys, token, topic = call.keys, args.token, args.topic
  if redis.call('SISMEMBER', keys.subscribers(), token) == 0 then return 'subscriber_not_found' end
  if redis.call('SISMEMBER', keys.topics(), topic) == 0 then return 'topic_not_found' end
  if redis.call('SREM', keys.subscriber_topics(token), topic) == 0 then return 'not_subscribed' end
  redis.call('SREM', keys.topic_subscribers(topic), token)
  return 'ok'
end
