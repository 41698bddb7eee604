#!lua flags=allow-oom
--[[
remove_topic: delete a topic and end its subscriptions. Queued events of the topic are still delivered.

`client` is the token of the client that asks; without it root asks. A client may only remove a topic of which
it is the publisher; otherwise the reply is `forbidden`. If there is no such topic, the reply is
`topic_not_found`. The counts of the topic move to the totals in the same step; `series` lists them.
]]
local counters = include('counters')
local topics = include('topics')

return function(call, args)
  local topic = args.topic
  if redis.call('SISMEMBER', call.keys.topics(), topic) == 0 then return 'topic_not_found' end
  if args.client and topics.publisher(call, topic) ~= args.client then return 'forbidden' end
  topics.remove(call, topic)
  counters.fold(call, args.series)
  return 'ok'
end
