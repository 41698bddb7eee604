--[[
Client quota: limits how many keys (idempotency keys, or nonces) the bus remembers for a client, and so limits the
memory that they take.

Each client has a bucket of permissions, and a new key costs one of them. A full bucket has `max` permissions. An empty
one is full again after the time for which a key is remembered. So the bus remembers at most 2 × `max` keys of a client
at a time. A bucket is stored as two times (µs) in a text: when it will be full again, and when it was stored. If the
second time is in the future when the bucket is read, Redis's clock was set back. The first time is then set back by as
much.
]]
local client_quota = {}

-- Creates the table of the clients' buckets for one script call. A bucket has up to `max` permissions, and an empty one
-- is full again after `window_ms`. The bus takes a permission from a client's bucket to remember an idempotency key or
-- a nonce of the client. `key_of` returns the Redis key of a client's bucket.
function client_quota.begin(call, key_of, max, window_ms)
  local window_us = window_ms * 1000
  -- Time (µs) in which a bucket regains one permission: 3.6 s if `max` is 1,000 and the window is an hour.
  local key_us = math.max(1, math.floor(window_us / max))
  return { key_of = key_of, now_us = call.now_us, window_us = window_us, key_us = key_us, full_at_us = {} }
end

-- Returns true if the client's bucket is empty. The bus must then remember no further idempotency key or nonce of the
-- client.
function client_quota.is_empty(quota, client)
  local full_at_us = quota.full_at_us[client]
  if not full_at_us then
    local full_at, at = (redis.call('GET', quota.key_of(client)) or ''):match('^(%d+) ?(%d*)$')
    local set_back_us = math.max(0, (tonumber(at) or 0) - quota.now_us)
    full_at_us = math.max(quota.now_us, (tonumber(full_at) or 0) - set_back_us)
    -- If the operator has shortened the window since `full_at_us` was stored, the bucket is full earlier: one window
    -- from now at the latest.
    full_at_us = math.min(full_at_us, quota.now_us + quota.window_us)
    quota.full_at_us[client] = full_at_us
  end
  return full_at_us + quota.key_us - quota.now_us > quota.window_us
end

-- Takes one permission from the client's bucket. Call `is_empty` first.
function client_quota.take(quota, client)
  quota.full_at_us[client] = quota.full_at_us[client] + quota.key_us
end

-- Stores the buckets that are not full. A bucket without a Redis key is full.
function client_quota.store(quota)
  for client, full_at_us in pairs(quota.full_at_us) do
    local full_in_ms = math.ceil((full_at_us - quota.now_us) / 1000)
    if full_in_ms > 0 then
      local times = string.format('%d %d', full_at_us, quota.now_us)
      redis.call('SET', quota.key_of(client), times, 'PX', full_in_ms)
    end
  end
end

return client_quota
