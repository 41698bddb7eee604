#!lua flags=allow-oom
--[[
remove_topic: delete a topic and end its subscriptions. Queued events of the topic are still delivered.

`client` is the token of the client that asks; without it root asks. A client may only remove a topic of which
it is the publisher; otherwise the reply is `forbidden`. If there is no such topic, the reply is
`topic_not_found`.
]]
return function(call, args)
  local keys, topic = call.keys, args.topic
  if redis.call('SISMEMBER', keys.topics(), topic) == 0 then return 'topic_not_found' end
  if args.client and redis.call('HGET', keys.topic(topic), 'publisher') ~= args.client then return 'forbidden' end
  for _, token in ipairs(redis.call('SMEMBERS', keys.topic_subscribers(topic))) do
    redis.call('SREM', keys.subscriber_topics(token), topic)
  end
  redis.call('DEL', keys.topic_subscribers(topic), keys.topic(topic))
  redis.call('SREM', keys.topics(), topic)
  return 'ok'
end
