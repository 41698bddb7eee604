#!lua flags=allow-oom
--[[
sweep_delayed_texts: find delayed events whose text is in the topic's hash `delayed:events:{topic}`, but which have no
entry in its sorted set of due times, and enter them there. The due time of such an event was only in the lost entry, so
the event is due now. Returns the findings.
]]
local delayed = include('flow/delayed/delayed')
local findings = include('maintenance/findings')
local topics = include('subscribing/topics')

return function(call, args)
  local topic, found = args.topic, {}
  if not topics.publisher(call, topic) then return found end
  for _, id in ipairs(args.ids) do
    local value = redis.call('HGET', call.keys.delayed_events(topic), id)
    local now = string.format('%d', call.now_ms)
    if value and redis.call('ZADD', call.keys.delayed_due(topic), 'NX', now, delayed.entry_of(value, id)) == 1 then
      findings.add(found, 'delayed_without_entry', topic .. ' ' .. id)
    end
  end
  delayed.enter_topic(call, topic)
  return found
end
