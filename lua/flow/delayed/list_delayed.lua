#!lua flags=no-writes,allow-oom
--[[
list_delayed: read delayed events of a topic in the order in which they are due. Changes nothing.

`client` is the token of the client that asks; without it root asks. The list begins behind the event that is due at
`after_ms` and has the serial number `after_serial` (the number by which events with the same time are sorted), even if
that event no longer waits. It ends after `limit` events, or after the event with which all texts together reach
`max_bytes`. `has_more` says whether further events follow.
]]
local delayed = include('flow/delayed/delayed')
local topics = include('subscribing/topics')

local DELAYED_PER_READ = 20

-- The previous page ended with the event that is due at `after_ms` and has the serial number `after_serial`. Returns
-- the rank of the next event in the sorted set `due`.
local function rank_behind(due, after_ms, after_serial)
  local from = redis.call('ZCOUNT', due, '-inf', '(' .. after_ms)
  local to = from + redis.call('ZCOUNT', due, after_ms, after_ms)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if delayed.serial_of(redis.call('ZRANGE', due, middle, middle)[1]) <= after_serial then
      from = middle + 1
    else
      to = middle
    end
  end
  return from
end

-- Appends events to `list` until the texts in the list have `max_bytes` together. `bytes` is the size of the texts that
-- are in the list already. Returns the size of the texts that are in the list afterwards.
local function add_events(list, hash, entries, bytes, max_bytes)
  for i = 1, #entries, 2 do
    if bytes >= max_bytes then break end
    local entry = entries[i]
    local value = redis.call('HGET', hash, delayed.id_of(entry))
    if value then
      local text = delayed.text_of(value)
      list[#list + 1] = { at = entries[i + 1], serial = delayed.serial_of(entry), text = text }
      bytes = bytes + #text
    end
  end
  return bytes
end

return function(call, args)
  local topic, list, bytes = args.topic, {}, 0
  local refusal = topics.refusal(call, topic, args.client)
  if refusal then return { outcome = refusal, events = list, has_more = false } end
  local due, hash = call.keys.delayed_due(topic), call.keys.delayed_events(topic)
  local rank = args.after_ms and rank_behind(due, args.after_ms, args.after_serial) or 0
  while #list < args.limit and bytes < args.max_bytes do
    local count = math.min(DELAYED_PER_READ, args.limit - #list)
    local entries = redis.call('ZRANGE', due, rank, rank + count - 1, 'WITHSCORES')
    if #entries == 0 then break end
    bytes = add_events(list, hash, entries, bytes, args.max_bytes)
    rank = rank + #entries / 2
  end
  local last = list[#list]
  local has_more = last and rank_behind(due, last.at, last.serial) < redis.call('ZCARD', due)
  return { outcome = 'ok', events = list, has_more = has_more }
end
