--[[
Rates: bounds how much each client publishes in the long run.

A client has a token bucket for events and one for bytes. Each fills steadily, and is full after `burst_ms`. While
neither is empty, a publication of any size is admitted, even one that takes more than a bucket holds. The client then
waits longer until its next publication. A bucket is stored as the time at which it will be full again. The buckets of a
client expire when both are full. They are stored together with the time of storing (`at`). If `at` is later than now
when they are read, Redis's clock was set back, and the times of the buckets are set back by as much. A rate of 0 means
no limit.
]]
local rates = {}

-- Creates the state of the rate limits in one script call. `buckets` has the buckets that the call has read, by client.
-- `changed` has those that it must store, by client.
function rates.begin(call, args)
  return {
    now_us = call.now_us, burst_us = args.burst_ms * 1000,
    events_rate = args.events_per_second, bytes_rate = args.bytes_per_second,
    buckets = {}, changed = {},
  }
end

local function buckets_of(call, state, client)
  local buckets = state.buckets[client]
  if not buckets then
    local events, bytes, at = unpack(redis.call('HMGET', call.keys.rate(client), 'events', 'bytes', 'at'))
    local set_back_us = math.max(0, (tonumber(at) or 0) - state.now_us)
    buckets = {
      events = math.max(state.now_us, (tonumber(events) or 0) - set_back_us),
      bytes = math.max(state.now_us, (tonumber(bytes) or 0) - set_back_us),
    }
    state.buckets[client] = buckets
    -- If the clock was set back, the buckets are stored with the new time even if nothing is taken from them. Otherwise
    -- they would not fill until the clock reaches the old time again.
    if set_back_us > 0 then state.changed[client] = buckets end
  end
  return buckets
end

-- Returns true if a bucket is empty: it will take `burst_us` or longer until it is full again.
local function is_bucket_empty(state, full_at_us, rate)
  return rate > 0 and full_at_us - state.now_us >= state.burst_us
end

-- True if the client's bucket of events or of bytes is empty, so that it may publish nothing now.
function rates.is_empty(call, state, client)
  if state.events_rate == 0 and state.bytes_rate == 0 then return false end
  local buckets = buckets_of(call, state, client)
  return is_bucket_empty(state, buckets.events, state.events_rate)
    or is_bucket_empty(state, buckets.bytes, state.bytes_rate)
end

-- Returns the time (µs) at which a bucket will be full again after `count` events or bytes are taken out of it. The
-- bucket gains `rate` events or bytes in a second.
local function full_at_after(full_at_us, rate, count)
  return rate > 0 and full_at_us + math.ceil(count * 1000000 / rate) or full_at_us
end

function rates.take(call, state, client, events, bytes)
  if state.events_rate == 0 and state.bytes_rate == 0 then return end
  local buckets = buckets_of(call, state, client)
  buckets.events = full_at_after(buckets.events, state.events_rate, events)
  buckets.bytes = full_at_after(buckets.bytes, state.bytes_rate, bytes)
  state.changed[client] = buckets
end

local function full_in_ms(state, full_at_us)
  return math.ceil((full_at_us - state.now_us) / 1000)
end

-- Returns the ms until the client's bucket of events is full, and the ms until its bucket of bytes is full.
function rates.full_in_ms(call, state, client)
  local buckets = buckets_of(call, state, client)
  return full_in_ms(state, buckets.events), full_in_ms(state, buckets.bytes)
end

function rates.store(call, state)
  for client, buckets in pairs(state.changed) do
    local rate = call.keys.rate(client)
    redis.call('HSET', rate, 'events', buckets.events, 'bytes', buckets.bytes, 'at', state.now_us)
    redis.call('PEXPIRE', rate, full_in_ms(state, math.max(buckets.events, buckets.bytes)))
  end
end

return rates
