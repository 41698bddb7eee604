#!lua flags=allow-oom
--[[
remove_subscriber: delete a subscriber, its subscriptions and its drop notices, but not its batches.

Returns `found`, which is true if there was such a subscriber, and `now_ms`, Redis's time. The caller next deletes
the dead letters (purge) and the batches created up to `now_ms` (drop_queue). Later batches belong to a new
subscription and must stay. The counts of the subscriber move to the totals in the same step; `series` lists them. A
topic without a publisher ends with its last subscription. If the process dies in between, the jobs of the batches
find no subscriber and delete the batches one by one. All jobs of a paused subscriber wait outside the queue. So one
job is brought back, and the end of each job brings back the next.
]]
local counters = include('counters')
local topics = include('topics')
local waiting = include('waiting')

return function(call, args)
  local keys, token = call.keys, args.token
  local found = redis.call('SREM', keys.subscribers(), token) == 1
  for _, topic in ipairs(redis.call('SMEMBERS', keys.subscriber_topics(token))) do
    topics.unsubscribe(call, token, topic)
  end
  redis.call('DEL', keys.subscriber(token), keys.batches_current(token))
  redis.call('HDEL', keys.batches_open(), token)
  redis.call('HDEL', keys.batches_room(), token)
  redis.call('DEL', keys.drop_notice(token), keys.drop_notice_carried(token), keys.dropped(token))
  waiting.bring_back(call, token, 1)
  counters.fold(call, args.series)
  return { found = found, now_ms = call.now_ms }
end
