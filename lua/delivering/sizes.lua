--[[
Sizes: how much memory the batches and the dead letters of a subscriber take in Redis.

For an estimate, some of them are measured, and the mean size of their events is multiplied by the number of all events.
(The mean size of a batch times the number of batches would be a worse estimate, since long batches are few.) Nobody
counts bytes when events are stored or delivered, as that would slow both down.

A client can make an estimate of its own bytes too low: by short events in the batches that are measured, or at the
beginning of each batch, where MEMORY USAGE looks. `sizes.measured` cannot be misled, but looks at all batches.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local sizes = {}

-- How many of a subscriber's batches, and how many of its dead letters, are measured for an estimate that is only
-- displayed. Measuring five takes Redis about 30 µs.
local SHOWN_SAMPLES = 5

-- Bytes of Redis that a batch takes besides its list of events and the history of its failed attempts: for its job, and
-- for its entries in indexes. 390 to 510 bytes were measured.
local OVERHEAD_BYTES = 400

-- One call measures at most MAX_MEASURED batches or dead letters in full, and stops after MAX_MEASURED_BYTES. To
-- measure a list in full, Redis walks through all its parts, some 8 KB each, which takes long.
local MAX_MEASURED, MAX_MEASURED_BYTES = 200, 32 * 1024 * 1024

-- Returns how many bytes a batch or dead letter takes besides its list of events. A history can have 17 KB.
local function other_bytes(keys, bid)
  return OVERHEAD_BYTES + (redis.call('MEMORY', 'USAGE', keys.attempts(bid)) or 0)
end

-- Returns the UIDs of at most `samples` of the `count` batches in an index, spread evenly. Random batches would give
-- another figure at each look, even for a queue that has not changed.
local function sample_of(index, count, samples)
  if count <= samples then return redis.call('ZRANGE', index, 0, -1) end
  local bids = {}
  for i = 1, samples do
    local rank = math.floor((i - 0.5) * count / samples)
    bids[i] = redis.call('ZRANGE', index, rank, rank)[1]
  end
  return bids
end

-- Returns three values about the batches of a subscriber: the index of their UIDs, the function that returns the key of
-- a batch's list of events, and the hash with the number of their events. If `dead` is true, returns the same for the
-- subscriber's dead letters. If `token` is nil, the index is that of all subscribers.
local function keys_of(keys, token, dead)
  if dead then
    local index = token and keys.dead_letters_of(token) or keys.dead_letters_index()
    return index, keys.dead_letter, keys.dead_letters_events()
  end
  return token and keys.batches_queued(token) or keys.batches_index(), keys.batch, keys.gauge_events()
end

-- Returns the number of a subscriber's batches (or dead letters), and an estimate of their bytes. If another program
-- has changed the type of a batch's list, or of the hash with the number of events, this key counts as empty.
local function estimate(keys, token, dead, samples)
  local index, list_of, gauge = keys_of(keys, token, dead)
  local count, bytes, events, others = redis.call('ZCARD', index), 0, 0, 0
  if count == 0 then return 0, 0 end
  local measured = sample_of(index, count, samples)
  for _, bid in ipairs(measured) do
    others = others + other_bytes(keys, bid)
    local length = calls.read_or_nil('LLEN', list_of(bid)) or 0
    if length > 0 then
      bytes = bytes + redis.call('MEMORY', 'USAGE', list_of(bid))
      events = events + math.max(0, length - batches.HEADER)
    end
  end
  local all_events = tonumber(calls.read_or_nil('HGET', gauge, token)) or 0
  return count, math.ceil(count * others / #measured + all_events * bytes / math.max(1, events))
end

-- Returns four values: the number of a subscriber's queued batches (including those in flight), an estimate of their
-- bytes, and the same two values for its dead letters. At most `samples` of each are measured, or SHOWN_SAMPLES if
-- `samples` is nil.
function sizes.of(keys, token, samples)
  samples = samples or SHOWN_SAMPLES
  local queued, queued_bytes = estimate(keys, token, false, samples)
  return queued, queued_bytes, estimate(keys, token, true, samples)
end

-- Measures batches of a subscriber in full, beginning with the batch number `from` (0 is the oldest). If `token` is
-- nil, measures batches of all subscribers. If `dead` is true, measures dead letters instead of batches. Stops when the
-- measured ones take `max_bytes` or more together, or at the limits of one call (`MAX_MEASURED`, `MAX_MEASURED_BYTES`).
-- Returns how many were measured, and their bytes. Both are 0 if there is no batch number `from`, or if `max_bytes` is
-- 0 or less.
function sizes.measured(keys, token, dead, from, max_bytes)
  local index, list_of = keys_of(keys, token, dead)
  local count, bytes = 0, 0
  for _, bid in ipairs(redis.call('ZRANGE', index, from, from + MAX_MEASURED - 1)) do
    if bytes >= math.min(max_bytes, MAX_MEASURED_BYTES) then break end
    bytes = bytes + other_bytes(keys, bid) + (redis.call('MEMORY', 'USAGE', list_of(bid), 'SAMPLES', 0) or 0)
    count = count + 1
  end
  return count, bytes
end

return sizes
