#!lua flags=allow-oom
--[[
nonce_uses: consume Digest nonce uses. A nonce use is one `nc` count of a nonce, and is valid only once.

Returns `consumed` for each use that this call consumed. A use is `repeated` if it was consumed before, or if
its count is too high or too far ahead of the stored bits. A nonce has one bit for each count, so counts may
arrive in any order. A use is `replaced` if `key`, which signed the nonce, is no longer the key of its hour:
this Redis may have forgotten the uses of that nonce.
]]
local digest_keys = include('digest_keys')

-- Maximum count of a nonce. The bits of a nonce then take at most 20 KB of Redis.
local MAX_COUNT = 65535
-- Maximum distance of a count from the end of the stored bits. A client that uses one nonce on many
-- connections can be out of order by one count for each connection. One request can allocate at most this
-- many bits.
local MAX_AHEAD = 1024

local function consume(call, nonce, count, kept_ms)
  local uses = call.keys.nonce_uses(nonce)
  local bytes = redis.call('STRLEN', uses)
  if count > MAX_COUNT or count > bytes * 8 + MAX_AHEAD then return 'repeated' end
  local is_new = redis.call('SETBIT', uses, count, 1) == 0
  if bytes == 0 then redis.call('PEXPIRE', uses, kept_ms) end
  return is_new and 'consumed' or 'repeated'
end

-- The uses of a nonce expire `kept_ms` after its first use.
return function(call, args)
  digest_keys.replace_after_restart(call)
  local key_of, outcomes = {}, {}
  for i, use in ipairs(args.uses) do
    key_of[use.hour] = key_of[use.hour] or redis.call('HGET', call.keys.digest_keys(), use.hour)
    local is_current = key_of[use.hour] == use.key
    outcomes[i] = is_current and consume(call, use.nonce, use.count, args.kept_ms) or 'replaced'
  end
  return outcomes
end
