--[[
Cutting: reads as many events of a batch as one delivery may carry. If the batch has more, it is cut (parts.lua): the
events that were read are delivered now, and the others next.

A batch can be too large for one of these reasons:

- It was opened for more events than the subscriber's limit (opening.lua).
- One script call opened it with events that together exceed max_bytes.
- It has small events, whose bytes are not counted, besides large ones (open_batches.lua).
- Its subscriber has lowered a limit since the batch was opened.
- It was opened by an old release, which had no max_bytes.

A *long* batch takes more memory in Redis than one script call reads. If it fits into one delivery, the worker reads the
events itself.
]]
local batches = include('delivering/batches')
local choosing = include('delivering/choosing')
local open_batches = include('delivering/open_batches')
local parts = include('delivering/parts')
local pieces = include('delivering/pieces')
local cutting = {}

local EVENTS_PER_READ = 100
-- A batch that was attempted before stays whole up to this number of bytes, so that the next attempt has the same UID
-- and body. A larger batch is cut, because its size may have killed workers.
local MAX_ATTEMPTED_BYTES = 33554432

-- A batch that takes more bytes of memory in Redis than this is long. A script that read a batch of 16 MiB blocked
-- Redis for 45 ms.
local LONG_BYTES = 2097152

-- Returns how many bytes of memory a batch takes in Redis: up to a third more than the bytes of its events. Returns 0
-- if `start`, the items that were already read, is the whole batch.
local function size_of(call, bid, start)
  if #start < choosing.START then return 0 end
  return redis.call('MEMORY', 'USAGE', call.keys.batch(bid), 'SAMPLES', 0)
end

-- Returns the maximum events and bytes of one delivery of a batch. The first attempt keeps to the subscriber's limits.
-- A later attempt must send the same events as the first, even if these limits are lower now. So it keeps only to
-- MAX_ATTEMPTED_BYTES. `start[3]` is the number of earlier attempts.
local function limits_of(lane, start)
  if start[3] ~= '0' then return { events = math.huge, bytes = MAX_ATTEMPTED_BYTES } end
  return { events = open_batches.max_events(lane.max_events), bytes = open_batches.max_bytes(lane.max_bytes) }
end

-- Reads the items of a batch's list, about EVENTS_PER_READ at a time, until the list ends or the items exceed `limits`.
-- `start` has the first items, which were read before.
local function read_items(call, bid, start, limits)
  if #start < choosing.START then return start end
  local batch = call.keys.batch(bid)
  local list = redis.call('LRANGE', batch, 0, batches.HEADER + EVENTS_PER_READ)
  local has_more, first_new, bytes = #list > batches.HEADER + EVENTS_PER_READ, batches.HEADER + 1, 1
  while has_more and #list - batches.HEADER <= limits.events do
    bytes = bytes + open_batches.bytes_of(list, first_new)
    if bytes > limits.bytes then break end
    first_new = #list + 1
    local more = redis.call('LRANGE', batch, #list, #list + EVENTS_PER_READ - 1)
    for _, event in ipairs(more) do list[#list + 1] = event end
    has_more = #more == EVENTS_PER_READ
  end
  return list
end

-- Adds as many events of the batch `bid` to the reply as one delivery may have. If events are left over, the added ones
-- become a new batch with 0 attempts, whose job replaces the job of `bid` in the reply. Returns three values:
--   - the UID of the batch that the worker delivers
--   - the number of its events
--   - the number of items added to the reply, each with one or several events (pieces.lua). It is 0 for a long batch,
--     whose events the worker reads itself
function cutting.add_events(call, given, worker, bid, start, lane)
  local limits, job_at = limits_of(lane, start), #given.reply_items
  local size = limits.bytes > LONG_BYTES and size_of(call, bid, start) or 0
  if size > LONG_BYTES then
    local events = batches.count_events(call, bid)
    if size <= limits.bytes and events <= limits.events then return bid, events, 0 end
    -- A long batch that does not fit is cut after its first LONG_BYTES, because this script reads no more.
    limits.bytes = LONG_BYTES
  end
  local list = read_items(call, bid, start, limits)
  local piece_count, last = pieces.add_events(given, list, limits)
  if last < #list then
    bid, given.reply_items[job_at] = parts.cut_off(call, given, worker, bid, list, last)
    start[3] = '0'
  end
  return bid, last - batches.HEADER, piece_count
end

-- Adds all events of the batch `bid` to the reply. Adds nothing if the batch is long: the worker reads its events
-- itself. Does not cut the batch: if that was necessary, it was done when the worker got the batch. Returns the number
-- of events in the batch, and the number of items added to the reply.
function cutting.add_all_events(call, given, bid, start)
  if size_of(call, bid, start) > LONG_BYTES then return batches.count_events(call, bid), 0 end
  local list = #start == choosing.START and redis.call('LRANGE', call.keys.batch(bid), 0, -1) or start
  local piece_count = pieces.add_events(given, list, { events = math.huge, bytes = math.huge })
  return #list - batches.HEADER, piece_count
end

return cutting
