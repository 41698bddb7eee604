#!lua flags=allow-oom
--[[
remove_subscriber: forget a subscriber, its subscriptions and its drop notices.

The caller purges its dead letters (purge) and its batches (drop_queue) next, those created up to the time
that is returned: what it gets after subscribing again is its own. Should the process die in between, the jobs
of the batches find no subscriber and delete them one by one. If the subscriber was paused all of its jobs
wait, so one is brought back.
]]
local waiting = include('waiting')

return function(call, args)
  local keys, token = call.keys, args.token
  local found = redis.call('SREM', keys.subscribers(), token) == 1
  for _, topic in ipairs(redis.call('SMEMBERS', keys.subscriber_topics(token))) do
    redis.call('SREM', keys.topic_subscribers(topic), token)
  end
  redis.call('DEL', keys.subscriber_topics(token), keys.subscriber(token), keys.batches_current(token))
  redis.call('HDEL', keys.batches_open(), token)
  redis.call('DEL', keys.drop_notice(token), keys.drop_notice_carried(token), keys.dropped(token))
  waiting.bring_back(call, token, 1)
  return { found = found, now_ms = call.now_ms }
end
