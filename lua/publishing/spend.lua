#!lua
--[[
spend: let publications in as the rates of their clients permit.

A client has a bucket of events and one of bytes, which fill steadily: each takes `burst_ms` to fill. A
publication is let in if both have something left. It takes what it needs even if that is more than there is,
and the next waits longer. So a publication of any size gets in at some time, and in the long run no client
exceeds its rate. A refused publication takes nothing. A rate of 0 is no limit.

A bucket is stored as the time at which it is full again; a full one is forgotten. The reply says for each
publication if it is let in, and in how many ms its client's buckets are full.
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

-- When a bucket is full after something is taken out of it.
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
    local let_in = not is_empty(call, buckets.events, events_rate, args.burst_ms)
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
