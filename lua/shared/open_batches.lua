--[[
Open batches: the open batch of a subscriber is the one that takes its new events.

The hash `batches:open` has an entry for each subscriber, so that publish reads the open batches of all
subscribers with one command. An entry is the UID of the batch, followed by the maximum number of events; this
number is left out if both it and max_bytes are the defaults. As in the Ruby Routemaster, the UID is also in
`batches:current:{token}`.

The hash `batches:room` has, for a subscriber, the UID of its open batch and the room of the batch in bytes:
max_bytes minus the length of the body that delivers its events. Small events of a subscriber with the defaults are
not counted: a hundred of them have at most an eighth of max_bytes, and counting them made a publish to many
subscribers a quarter dearer. If the UID is that of another batch, no bytes of the open batch were counted.
]]
local bulk = include('bulk')
local defaults = include('defaults')
local jobs = include('jobs')
local open_batches = {}

local UID_LENGTH = 20
-- Maximum bytes of a small event, whose bytes need not be counted. With the default settings, a batch full of
-- small events takes an eighth of the bytes that a delivery may have.
local SMALL_EVENT_BYTES = 1310

-- Returns the maximum number of events in a batch, from the subscriber's setting. It is at least 1, because a
-- batch with no room would be replaced by another one for ever.
function open_batches.max_events(setting)
  return math.max(1, tonumber(setting) or defaults.max_events)
end

-- Returns the maximum number of bytes in the body of a delivery, from the subscriber's setting.
function open_batches.max_bytes(setting)
  return tonumber(setting) or defaults.max_bytes
end

-- Returns the bytes that the events of a slice, from `first` on, take in the body of a delivery. Each event
-- is followed by a comma or a bracket. The whole slice is measured once for all subscribers.
function open_batches.bytes_of(slice, first)
  if first == slice.first and slice.bytes then return slice.bytes end
  local list, bytes = slice.list, slice.last - first + 1
  for i = first, slice.last do bytes = bytes + #list[i] end
  if first == slice.first then slice.bytes = bytes end
  return bytes
end

-- Returns true if the bytes of these events must be counted, because they could fill the batch with this entry. For a
-- subscriber with its own limit they always must; its entry is longer.
function open_batches.counts_bytes(entry, slice, first)
  if #entry > UID_LENGTH then return true end
  return open_batches.bytes_of(slice, first) > SMALL_EVENT_BYTES * (slice.last - first + 1)
end

-- Returns the value in `batches:room` for a new batch with these events, and the room that it has left.
function open_batches.new_room(bid, max_bytes, bytes)
  local room = open_batches.max_bytes(max_bytes) - 1 - bytes
  return bid .. string.format('%d', room), room
end

-- Subtracts bytes from the room of open batches. Returns the room left in each, by subscriber. The lists have,
-- for each batch, the subscriber's token, the UID, and the bytes to subtract.
function open_batches.take_room(call, tokens, bids, bytes)
  local rooms, values = {}, {}
  if #tokens == 0 then return rooms end
  for i, value in ipairs(bulk.get_fields(call.keys.batches_room(), tokens)) do
    local is_counted = value and value:sub(1, UID_LENGTH) == bids[i]
    local room = (is_counted and tonumber(value:sub(UID_LENGTH + 1)) or defaults.max_bytes - 1) - bytes[i]
    rooms[tokens[i]] = room
    values[2 * i - 1], values[2 * i] = tokens[i], bids[i] .. string.format('%d', room)
  end
  bulk.set_fields(call.keys.batches_room(), values)
  return rooms
end

-- Returns the entry of a batch in `batches:open`. `max_bytes` is the subscriber's own setting, or false.
function open_batches.entry(bid, max_events, max_bytes)
  return max_events == defaults.max_events and not max_bytes and bid or bid .. string.format('%d', max_events)
end

-- Returns the UID of the batch in an entry, and the maximum number of its events.
function open_batches.read_entry(entry)
  if #entry == UID_LENGTH then return entry, defaults.max_events end
  return entry:sub(1, UID_LENGTH), tonumber(entry:sub(UID_LENGTH + 1))
end

-- Returns the UID of the subscriber's open batch; false if there is none.
function open_batches.bid_of(call, token)
  local entry = redis.call('HGET', call.keys.batches_open(), token)
  return entry and entry:sub(1, UID_LENGTH)
end

-- Closes a batch to new events. It is not an error if the batch is not open.
function open_batches.close(call, token, bid)
  if open_batches.bid_of(call, token) == bid then open_batches.close_open(call, token, bid) end
end

-- Closes a batch that the caller knows to be open.
function open_batches.close_open(call, token, bid)
  redis.call('HDEL', call.keys.batches_open(), token)
  redis.call('SREM', call.keys.batches_current(token), bid)
end

-- Closes a full batch and makes its job instant. Leaves the job alone if it is no longer scheduled, because
-- its deadline has passed.
function open_batches.close_full(call, token, bid)
  open_batches.close(call, token, bid)
  local job = jobs.delivery_of(bid)
  if redis.call('ZREM', call.keys.jobs_scheduled('main'), job) == 1 then jobs.make_instant(call, 'main', job) end
end

return open_batches
