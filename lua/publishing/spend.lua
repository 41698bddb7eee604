#!lua
--[[
spend: admit publications as far as the rate limits of their clients permit.

A client has a token bucket for events and one for bytes. Each fills steadily, and is full after `burst_ms`. A
publication is admitted if neither bucket is empty. It may take more than a bucket holds; the client then
waits longer for the next one. So a publication of any size is admitted at some time, and no client exceeds
its rate in the long run. A refused publication takes nothing. A rate of 0 means no limit. A demand with
`is_admitted` takes what it needs, even from empty buckets: the rest of what an admitted publication costs.

For each publication, the reply has `let_in`, which is true if it was admitted. It also has the time until
each bucket of its client is full (ms). A bucket is stored as the time at which it will be full again. The
buckets of a client expire when both are full.
]]
local function read_buckets(call, client)
  local events, bytes = unpack(redis.call('HMGET', call.keys.rate(client), 'events', 'bytes'))
  return {
    events = math.max(call.now_us, tonumber(events) or 0),
    bytes = math.max(call.now_us, tonumber(bytes) or 0),
  }
end

local function is_empty(call, full_at_us, rate, burst_ms)
  return rate > 0 and full_at_us - call.now_us >= burst_ms * 1000
end

-- Returns the time (µs) at which a bucket is full again after `count` is taken out of it.
local function taken(full_at_us, rate, count)
  return rate > 0 and full_at_us + math.ceil(count * 1000000 / rate) or full_at_us
end

local function full_in_ms(call, full_at_us)
  return math.ceil((full_at_us - call.now_us) / 1000)
end

local function store(call, client, buckets)
  local rate = call.keys.rate(client)
  redis.call('HSET', rate, 'events', buckets.events, 'bytes', buckets.bytes)
  redis.call('PEXPIRE', rate, full_in_ms(call, math.max(buckets.events, buckets.bytes)))
end

return function(call, args)
  local events_rate, bytes_rate = args.events_per_second, args.bytes_per_second
  local buckets_of, changed, outcomes = {}, {}, {}
  for i, demand in ipairs(args.demands) do
    local client = demand.client
    local buckets = buckets_of[client] or read_buckets(call, client)
    buckets_of[client] = buckets
    local let_in = demand.is_admitted
      or not is_empty(call, buckets.events, events_rate, args.burst_ms)
      and not is_empty(call, buckets.bytes, bytes_rate, args.burst_ms)
    if let_in then
      buckets.events = taken(buckets.events, events_rate, demand.events)
      buckets.bytes = taken(buckets.bytes, bytes_rate, demand.bytes)
      changed[client] = buckets
    end
    outcomes[i] = {
      let_in = let_in,
      events_full_in_ms = full_in_ms(call, buckets.events),
      bytes_full_in_ms = full_in_ms(call, buckets.bytes),
    }
  end
  for client, buckets in pairs(changed) do store(call, client, buckets) end
  return outcomes
end
