#!lua flags=allow-oom
--[[
remove_topic: delete a topic and its delayed events, and end its subscriptions. Queued events of the topic are still
delivered. `delayed` is the number of deleted delayed events, and `subscriptions` the number of ended subscriptions.

`client` is the token of the client that asks; without it root asks. A client may only remove a topic of which it is the
publisher; otherwise `outcome` is `forbidden`, or `topic_not_found` if there is no such topic. `partitions` has the
numbers of the other partitions with subscriptions to the topic. These end when the partitions apply the outbox entry
that this script adds. The counters of the topic (`series`) are added to the totals in the same step.
]]
local counters = include('metrics/counters')
local topics = include('subscribing/topics')

return function(call, args)
  local refusal = topics.refusal(call, args.topic, args.client)
  if refusal then return { outcome = refusal, delayed = 0, subscriptions = 0, partitions = {} } end
  local delayed, partitions, subscriptions = topics.remove(call, args.topic)
  counters.fold(call, args.series)
  return { outcome = 'ok', delayed = delayed, subscriptions = subscriptions, partitions = partitions }
end
