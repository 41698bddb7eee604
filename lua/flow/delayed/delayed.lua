--[[
Delayed: the events of topics that wait for their time.

A topic has a sorted set of *entries* by due time (ms), and a hash of its events by id. An entry is the event's *serial
number* followed by its id, and a value of the hash is the serial number followed by the text that will be delivered. A
serial number has 12 digits, and is higher for each further delayed event of the topic. So events that are due at the
same time stay in the order of acceptance. The entry of an id can be found, because the hash has the serial number.

`delayed:held:{token}` has the sums of a client's delayed events: their number, their bytes, and the bytes of each of
its topics. A delayed event counts for the present publisher of its topic.

Entries are written before texts, and removed before them. So an interrupted write leaves one of two things: an entry
whose event was never acknowledged, or a text whose event is in batches already, or was dropped.
]]
local agenda = include('flow/agenda')
local calls = include('store/calls')
local many = include('store/many')
local delayed = {}

local SERIAL_FORMAT = '%012d'
local SERIAL_LENGTH = 12
-- Bytes of Redis that a delayed event takes besides its text, if its id has 16 characters. 240 to 270 were measured.
local OVERHEAD_BYTES = 250
-- Fields of the hash `delayed:held:{token}`: the number of a client's delayed events, and the sum of their bytes. The
-- colons tell these fields from the others, which are names of topics.
local EVENTS, BYTES = ':events', ':bytes'

-- Returns the bytes of Redis that a delayed event takes. `length` is the length of its text.
function delayed.bytes_of(length)
  return length + OVERHEAD_BYTES
end

function delayed.id_of(entry)
  return entry:sub(SERIAL_LENGTH + 1)
end

function delayed.text_of(value)
  return value:sub(SERIAL_LENGTH + 1)
end

function delayed.entry_of(value, id)
  return value:sub(1, SERIAL_LENGTH) .. id
end

function delayed.serial_of(entry)
  return tonumber(entry:sub(1, SERIAL_LENGTH))
end

-- Returns the bytes of Redis that a delayed event takes, or nothing if the event has no text. Reads only the length of
-- the text.
function delayed.bytes_at(call, topic, id)
  local length = redis.call('HSTRLEN', call.keys.delayed_events(topic), id)
  if length > 0 then return delayed.bytes_of(length - SERIAL_LENGTH) end
end

-- Returns how many delayed events a client has, and how many bytes they take.
function delayed.held_by(call, token)
  local events, bytes = unpack(redis.call('HMGET', call.keys.delayed_held(token), EVENTS, BYTES))
  return tonumber(events) or 0, tonumber(bytes) or 0
end

local function bytes_in(call, publisher, topic)
  return tonumber(redis.call('HGET', call.keys.delayed_held(publisher), topic)) or 0
end

-- Returns how many delayed events a topic has, and how many bytes they take. Both are 0 if the topic has no publisher.
function delayed.of_topic(call, publisher, topic)
  if not publisher then return 0, 0 end
  return redis.call('ZCARD', call.keys.delayed_due(topic)), bytes_in(call, publisher, topic)
end

-- Returns why a client may not have `events` delayed events that take `bytes` together, or nothing if it may.
function delayed.judge_room(events, bytes, args)
  if events > args.max_client_delayed then return 'too_many_delayed' end
  if bytes > args.max_client_bytes then return 'too_much_delayed' end
end

-- Adds `events` to the stored number of a client's delayed events, and `number_of_bytes` to the stored sums of their
-- bytes: that of the client, and that of the topic. Both are negative if events are removed.
local function count(call, publisher, topic, events, number_of_bytes)
  -- The number can be -0: the negative of the sum 0, if the removed events had no stored texts. Redis refuses the text
  -- `-0`, and `%d` writes `0`.
  local held, bytes = call.keys.delayed_held(publisher), string.format('%d', number_of_bytes)
  if redis.call('HINCRBY', held, EVENTS, events) <= 0 then
    redis.call('DEL', held)
    return
  end
  redis.call('HINCRBY', held, BYTES, bytes)
  if redis.call('HINCRBY', held, topic, bytes) <= 0 then redis.call('HDEL', held, topic) end
end

-- Sets the stored sum of the bytes of a topic's delayed events to `bytes`, which the sweep has counted. Returns true if
-- the stored sum was wrong.
function delayed.set_bytes(call, publisher, topic, bytes)
  if bytes_in(call, publisher, topic) == bytes then return false end
  redis.call('HSET', call.keys.delayed_held(publisher), topic, bytes)
  return true
end

-- Corrects the hash `delayed:held:{token}` of a client, for the sweep. Sets the number of the client's delayed events,
-- and the sum of their bytes. Deletes the field of each topic that has no delayed events, or that another client owns
-- now. Returns true if anything was wrong.
function delayed.correct_held(call, token)
  local keys, held = call.keys, call.keys.delayed_held(token)
  local fields, events, bytes, is_wrong = redis.call('HGETALL', held), 0, 0, false
  for i = 1, #fields, 2 do
    local topic = fields[i]
    local is_its = redis.call('HGET', keys.topic(topic), 'publisher') == token
    local members = is_its and redis.call('ZCARD', keys.delayed_due(topic)) or 0
    if members > 0 then
      events, bytes = events + members, bytes + fields[i + 1]
    elseif topic ~= EVENTS and topic ~= BYTES then
      redis.call('HDEL', held, topic)
      is_wrong = true
    end
  end
  local held_events, held_bytes = delayed.held_by(call, token)
  if held_events == events and held_bytes == bytes then return is_wrong end
  if events > 0 then
    redis.call('HSET', held, EVENTS, events, BYTES, bytes)
  else
    redis.call('DEL', held)
  end
  return true
end

-- Enters a topic in `delayed:topics` with the time of its first delayed event, or removes it from there if it has no
-- delayed event.
function delayed.enter_topic(call, topic)
  local keys = call.keys
  local due = redis.call('ZRANGE', keys.delayed_due(topic), 0, 0, 'WITHSCORES')[2]
  if due then
    agenda.enter(call, keys.delayed_topics(), topic, tonumber(due))
  else
    redis.call('ZREM', keys.delayed_topics(), topic)
  end
end

-- Adds delayed events of a topic, in the order in which they were accepted. Each event has an `id`, the time `due` (ms,
-- as text) and a `text`. The caller has checked that no delayed event of the topic has one of these ids.
function delayed.add(call, publisher, topic, events)
  local keys, entries, values, bytes = call.keys, {}, {}, 0
  local before = redis.call('HINCRBY', keys.topic(topic), 'delayed', #events) - #events
  for i, event in ipairs(events) do
    local serial = string.format(SERIAL_FORMAT, before + i)
    entries[2 * i - 1], entries[2 * i] = event.due, serial .. event.id
    values[2 * i - 1], values[2 * i] = event.id, serial .. event.text
    bytes = bytes + delayed.bytes_of(#event.text)
  end
  many.command('ZADD', keys.delayed_due(topic), entries)
  many.command('HSET', keys.delayed_events(topic), values)
  count(call, publisher, topic, #events, bytes)
  delayed.enter_topic(call, topic)
end

-- Removes delayed events of a topic. `entries` are their members in the sorted set, and `ids` their fields in the hash.
-- Also subtracts their number and `bytes` from the counts of the publisher, unless another program has overwritten
-- these counts.
function delayed.remove(call, publisher, topic, entries, ids, bytes)
  many.command('ZREM', call.keys.delayed_due(topic), entries)
  many.command('HDEL', call.keys.delayed_events(topic), ids)
  calls.skip_wrong_type(count, call, publisher, topic, -#ids, -bytes)
  delayed.enter_topic(call, topic)
end

-- Counts a topic's delayed events for its new publisher `to`, and no longer for `from`.
function delayed.give(call, topic, from, to)
  local events, bytes = delayed.of_topic(call, from, topic)
  if events == 0 then return end
  count(call, from, topic, -events, -bytes)
  count(call, to, topic, events, bytes)
end

-- Removes all delayed events of a topic. Returns their number.
function delayed.remove_topic(call, publisher, topic)
  local keys = call.keys
  local events, bytes = delayed.of_topic(call, publisher, topic)
  if events > 0 then
    count(call, publisher, topic, -events, -bytes)
    redis.call('UNLINK', keys.delayed_due(topic), keys.delayed_events(topic))
    redis.call('ZREM', keys.delayed_topics(), topic)
  end
  return events
end

return delayed
