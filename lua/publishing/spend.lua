#!lua
--[[
spend: let publications in as the rates of their clients permit.

A client has a bucket of events and one of bytes, which fill steadily. Who finds something in both is let in and takes what it
needs, even if that is more than there is: the next waits the longer. So whatever a request may hold gets in at some time, and
in the long run nobody exceeds the rate. What is refused takes nothing. A bucket is stored as the time at which it is full
again; a full one is forgotten.

KEYS
  schema                     string  names the partition
TOUCHES
  rate:{token}               hash    events, bytes
ARGV
  burst                      how long it takes a bucket to fill, ms
  events                     how many a second; 0: as many as they like
  bytes                      the same
  client, events, bytes…     a publication: the token of its client, and what it needs; again and again
RETURNS
  for each publication three numbers: 1 if it is let in, 0 if not; in how many ms the bucket of events is full; that of bytes
]]
-- include: now

local now_us = time[1] * 1000000 + time[2]
local burst_us = ARGV[1] * 1000
local rates = { tonumber(ARGV[2]), tonumber(ARGV[3]) }

-- When each bucket is full, by client; and of which clients that has changed.
local full_at, changed = {}, {}
local function buckets_of(client)
  if not full_at[client] then
    local stored = redis.call('HMGET', key.rate(client), 'events', 'bytes')
    full_at[client] = { math.max(now_us, tonumber(stored[1]) or 0), math.max(now_us, tonumber(stored[2]) or 0) }
  end
  return full_at[client]
end

local function is_empty(buckets, b)
  return rates[b] > 0 and buckets[b] - now_us >= burst_us
end

local function take(buckets, b, count)
  if rates[b] > 0 then buckets[b] = buckets[b] + math.ceil(count * 1000000 / rates[b]) end
end

local answers = {}
for i = 4, #ARGV, 3 do
  local client, events, bytes = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local buckets = buckets_of(client)
  local is_in = not is_empty(buckets, 1) and not is_empty(buckets, 2)
  if is_in then
    take(buckets, 1, events)
    take(buckets, 2, bytes)
    changed[client] = true
  end
  answers[#answers + 1] = is_in and 1 or 0
  for b = 1, 2 do answers[#answers + 1] = math.ceil((buckets[b] - now_us) / 1000) end
end

for client in pairs(changed) do
  local events_at, bytes_at = unpack(full_at[client])
  redis.call('HSET', key.rate(client), 'events', events_at, 'bytes', bytes_at)
  redis.call('PEXPIRE', key.rate(client), math.ceil((math.max(events_at, bytes_at) - now_us) / 1000))
end
return answers
