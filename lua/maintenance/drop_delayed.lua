#!lua flags=allow-oom
--[[
drop_delayed: free memory by deleting delayed events, beginning with those that are due last.

Each of `orders` names a topic, and how many of its events to delete at most. The hash of the topic tells its publisher
how many events were dropped so far, and between which times they were due. The script updates these three values
together with the deletion, and returns by topic how many events it dropped.
]]
local delayed = include('flow/delayed/delayed')
local topics = include('subscribing/topics')

local function note(call, drop)
  local topic = call.keys.topic(drop.topic)
  local from_ms, to_ms = unpack(redis.call('HMGET', topic, 'dropped_from', 'dropped_to'))
  redis.call('HINCRBY', topic, 'dropped_events', drop.events)
  redis.call('HSET', topic,
    'dropped_from', string.format('%d', math.min(drop.from_ms, tonumber(from_ms) or math.huge)),
    'dropped_to', string.format('%d', math.max(drop.to_ms, tonumber(to_ms) or 0)))
end

-- Deletes at most `max_deleted` delayed events of a topic, those that are due last. Returns how many events were
-- deleted, and their earliest and latest due time. Returns nothing if the topic has no delayed events or no publisher.
-- (A sweep deletes the delayed events of a topic without a publisher.)
local function cut_down(call, topic, max_deleted)
  local publisher = topics.publisher(call, topic)
  local last = redis.call('ZRANGE', call.keys.delayed_due(topic), 0, max_deleted - 1, 'REV', 'WITHSCORES')
  if not publisher or #last == 0 then return end
  local entries, ids, bytes = {}, {}, 0
  for i = 1, #last, 2 do
    local id = delayed.id_of(last[i])
    entries[#entries + 1], ids[#ids + 1] = last[i], id
    bytes = bytes + (delayed.bytes_at(call, topic, id) or 0)
  end
  delayed.remove(call, publisher, topic, entries, ids, bytes)
  return { topic = topic, events = #ids, from_ms = tonumber(last[#last]), to_ms = tonumber(last[2]) }
end

return function(call, args)
  local drops = {}
  for _, order in ipairs(args.orders) do
    local drop = cut_down(call, order.topic, order.max_deleted)
    if drop then
      note(call, drop)
      drops[#drops + 1] = drop
    end
  end
  return drops
end
