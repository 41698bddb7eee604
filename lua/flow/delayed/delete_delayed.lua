#!lua flags=allow-oom
--[[
delete_delayed: delete a delayed event of a topic before it is published.

`client` is the token of the client that asks; without it root asks. The reply is `delayed_event_not_found` if no
event with this id waits, for example because it was published a moment ago.
]]
local delayed = include('flow/delayed/delayed')
local topics = include('subscribing/topics')

return function(call, args)
  local topic, id = args.topic, args.id
  local refusal = topics.refusal(call, topic, args.client)
  if refusal then return refusal end
  local value = redis.call('HGET', call.keys.delayed_events(topic), id)
  if not value then return 'delayed_event_not_found' end
  local bytes = delayed.bytes_of(#delayed.text_of(value))
  delayed.remove(call, topics.publisher(call, topic), topic, { delayed.entry_of(value, id) }, { id }, bytes)
  return 'ok'
end
