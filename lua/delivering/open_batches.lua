--[[
Open batches: the open batch of a subscriber is the one that takes its new events.

The hash `batches:open` has an entry for each subscriber, so that publish reads the open batches of all subscribers with
one command. An entry is the UID of the batch, followed by the maximum number of events. If this number and max_bytes
are the defaults, the number is left out. As in the Ruby Routemaster, the UID is also in `batches:current:{token}`,
except after a takeover (opening.lua).

The hash `batches:room` has, for an open batch whose bytes are counted, the UID of the batch and its room: the number of
bytes that still fit into it, which is max_bytes minus the length of the body that delivers its events. If a
subscriber's field is missing, or has the UID of another batch, no bytes of its open batch were counted. Small events
are not counted (`needs_no_count`), because counting them made a publish to 500 subscribers 1.7 times as expensive.

The hash `batches:closed` has, by UID, the time (ms) at which each batch or dead letter was closed. A batch without a
field is still open, or counts as closed since its creation: its first events filled it (and were not accepted in
another partition), or it is a retried dead letter.

The key `batches:run` has the `run_id` of the Redis in which batches last got events, or workers were last scrubbed
(redis_run.lua).
]]
local defaults = include('store/defaults')
local jobs = include('delivering/jobs')
local many = include('store/many')
local redis_run = include('store/redis_run')
local open_batches = {}

local UID_LENGTH = 20
-- Events are small if `max_events` of them together take at most this part of max_bytes. The bytes of small events are
-- not counted, because counting makes publishing slower.
local SMALL_PART = 1 / 8

-- Returns the maximum number of events in a batch, from the subscriber's setting. It is at least 1: if no event fitted
-- into a batch, publish would open another batch for it, and so on for ever.
function open_batches.max_events(setting)
  return math.max(1, tonumber(setting) or defaults.max_events)
end

-- Returns the maximum number of bytes in the body of a delivery, from the subscriber's setting.
function open_batches.max_bytes(setting)
  return tonumber(setting) or defaults.max_bytes
end

-- Returns how many bytes `events` take in the body of a delivery, from position `first` on, with the comma or bracket
-- after each. The bytes of a whole list are kept in its field `bytes`, because several subscribers may get the same
-- list.
function open_batches.bytes_of(events, first)
  if first == 1 and events.bytes then return events.bytes end
  local bytes = #events - first + 1
  for i = first, #events do bytes = bytes + #events[i] end
  if first == 1 then events.bytes = bytes end
  return bytes
end

-- Returns true if publish need not count the bytes of new events (from position `first` of the list on), because they
-- are small: a batch of `max_events` events of their average size takes at most an eighth of the default max_bytes.
-- With the default limits, this is true for events of up to 1,309 bytes. Returns false if the subscriber has set its
-- own max_bytes.
function open_batches.needs_no_count(max_events, max_bytes, events, first)
  if max_bytes then return false end
  local count = #events - first + 1
  return open_batches.bytes_of(events, first) * max_events <= SMALL_PART * defaults.max_bytes * count
end

-- Returns the value of a new batch in the hash `batches:room`: the batch's UID, followed by its room, which is the
-- number of bytes that still fit into it. Also returns the room as a number. `bytes` is the size of the batch's events,
-- each with the comma or `]` after it. The 1 is for the `[` before them.
function open_batches.new_room(bid, max_bytes, bytes)
  local room = open_batches.max_bytes(max_bytes) - 1 - bytes
  return bid .. string.format('%d', room), room
end

-- Returns true if publish must read the hash `batches:room`, which has the bytes that still fit into open batches. It
-- need not if the new events are small and the subscriber has no limits of its own. `entry` is the entry of the open
-- batch in `batches:open`: a UID, with more text after it if the subscriber has limits of its own.
function open_batches.may_be_counted(entry, events)
  return #entry > UID_LENGTH or not open_batches.needs_no_count(defaults.max_events, false, events, 1)
end

-- Subtracts the bytes of new events from the room of open batches. The room of a batch is the number of bytes that
-- still fit into it. Returns the rooms that are left, by token. `tokens`, `entries` and `lists` have one item for each
-- batch: its subscriber, its entry in `batches:open`, and its new events. A batch that has got only small events has no
-- stored room, and is not in the result.
function open_batches.take_room(call, tokens, entries, lists)
  if #tokens == 0 then return {} end
  local rooms, values = {}, {}
  for i, value in ipairs(many.get_fields(call.keys.batches_room(), tokens)) do
    local token, events = tokens[i], lists[i]
    local bid, max = open_batches.read_entry(entries[i])
    local is_counted = value and value:sub(1, UID_LENGTH) == bid
    if is_counted or not open_batches.needs_no_count(max, false, events, 1) then
      local before = is_counted and tonumber(value:sub(UID_LENGTH + 1)) or defaults.max_bytes - 1
      rooms[token] = before - open_batches.bytes_of(events, 1)
      values[#values + 1] = token
      values[#values + 1] = bid .. string.format('%d', rooms[token])
    end
  end
  many.set_fields(call.keys.batches_room(), values)
  return rooms
end

-- Returns the entry of the open batch `bid` in the hash `batches:open`: the UID, followed by `max_events` if the
-- subscriber has limits of its own. `max_bytes` is the subscriber's own setting, or false.
function open_batches.entry(bid, max_events, max_bytes)
  return max_events == defaults.max_events and not max_bytes and bid or bid .. string.format('%d', max_events)
end

-- Reads an entry of the hash `batches:open`. Returns the UID of the open batch, and the maximum number of its events.
function open_batches.read_entry(entry)
  if #entry == UID_LENGTH then return entry, defaults.max_events end
  return entry:sub(1, UID_LENGTH), tonumber(entry:sub(UID_LENGTH + 1))
end

-- Returns the UID of the subscriber's open batch, or false if there is none.
function open_batches.bid_of(call, token)
  local entry = redis.call('HGET', call.keys.batches_open(), token)
  return entry and entry:sub(1, UID_LENGTH)
end

-- Removes the batch `bid`, which must be the subscriber's open batch, from the open batches.
function open_batches.remove(call, token, bid)
  redis.call('HDEL', call.keys.batches_open(), token)
  redis.call('SREM', call.keys.batches_current(token), bid)
end

-- Closes an open batch to new events, and stores the time. `bid` must be the UID of the subscriber's open batch.
function open_batches.close(call, token, bid)
  open_batches.remove(call, token, bid)
  redis.call('HSET', call.keys.batches_closed(), bid, string.format('%d', call.now_ms))
end

-- Makes Redis store the hash of closed batches as a table, by adding a field with an empty name and a long value.
-- Otherwise Redis stores a few hundred short fields as a list, in which each look-up takes 3 µs instead of 0.1.
function open_batches.spread_closed(call)
  redis.call('HSETNX', call.keys.batches_closed(), '', many.LONG_VALUE)
end

-- Returns true if no batch or dead letter has a stored time of closing.
function open_batches.has_no_closed(call)
  local hash = call.keys.batches_closed()
  local fields = redis.call('HLEN', hash)
  return fields == 0 or fields == 1 and redis.call('HEXISTS', hash, '') == 1
end

-- Returns a table of the times (ms, as text) at which these batches were closed, by UID.
function open_batches.closed_times(call, bids)
  local closed = {}
  if #bids == 0 then return closed end
  for i, closed_ms in ipairs(redis.call('HMGET', call.keys.batches_closed(), unpack(bids))) do
    closed[bids[i]] = closed_ms or nil
  end
  return closed
end

-- Returns the time at which a batch or dead letter was closed (ms, as text), or false.
function open_batches.closed_ms(call, bid)
  return redis.call('HGET', call.keys.batches_closed(), bid)
end

-- Deletes the times at which these batches were closed.
function open_batches.forget_closed(call, bids)
  redis.call('HDEL', call.keys.batches_closed(), unpack(bids))
end

-- Closes an open batch that is full. If its job still waits for the deadline of the batch, the job becomes instant (any
-- worker may take it).
function open_batches.close_full(call, token, bid)
  open_batches.close(call, token, bid)
  local job = jobs.delivery_of(bid)
  if redis.call('ZREM', call.keys.jobs_scheduled('main'), job) == 1 then jobs.make_instant(call, 'main', job) end
end

-- Closes all open batches if Redis was restarted, or a replica became the master, since the last call. Redis may have
-- lost its last writes then: a batch that it stores as open may already have been closed and delivered. If such a batch
-- got new events, the subscriber would ignore them, because it has already received a batch with this UID. The jobs of
-- the batches stay queued, so workers deliver the batches as usual.
function open_batches.close_all_after_restart(call)
  local keys, run = call.keys, redis_run.id()
  if not run or redis.call('GET', keys.batches_run()) == run then return end
  local entries, closed, current = redis.call('HGETALL', keys.batches_open()), {}, {}
  for i = 1, #entries, 2 do
    closed[i], closed[i + 1] = open_batches.read_entry(entries[i + 1]), string.format('%d', call.now_ms)
    current[#current + 1] = keys.batches_current(entries[i])
  end
  many.command('HSET', keys.batches_closed(), closed)
  -- If this bus took over the Redis of a Ruby Routemaster, the sets whose keys are in `current` have only batches of
  -- Ruby processes (opening.lua), and must stay.
  if redis.call('EXISTS', keys.taken_over()) == 0 then many.command('UNLINK', keys.batches_room(), current) end
  redis.call('DEL', keys.batches_open(), keys.batches_room())
  redis.call('SET', keys.batches_run(), run)
end

return open_batches
