#!lua
--[[
give_topic: make a client the publisher of an existing topic, in place of its present publisher, if it has one.

Subscriptions and delayed events stay. The delayed events count as those of the new publisher from then on. If the
client is the publisher already, nothing changes. A refusal changes nothing either: `topic_not_found`; `owns_too_many`
if the client owns `max_client_topics` already; `too_many_delayed` and `too_much_delayed` if the client would have more
delayed events than delay.lua lets it have.
]]
local delayed = include('flow/delayed/delayed')
local topics = include('subscribing/topics')

return function(call, args)
  local topic, client = args.topic, args.client
  local refusal = topics.refusal(call, topic)
  if refusal then return refusal end
  local publisher = topics.publisher(call, topic)
  if publisher == client then return 'ok' end
  if redis.call('SCARD', call.keys.topics_owned(client)) >= args.max_client_topics then return 'owns_too_many' end
  local events, bytes = delayed.of_topic(call, publisher, topic)
  local events_before, bytes_before = delayed.held_by(call, client)
  local full = events > 0 and delayed.judge_room(events_before + events, bytes_before + bytes, args)
  if full then return full end
  topics.give(call, topic, client)
  return 'ok'
end
