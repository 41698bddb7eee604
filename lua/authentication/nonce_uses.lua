#!lua flags=allow-oom
--[[
nonce_uses: consume Digest nonce uses. A nonce use is one `nc` count of a nonce, and is valid only once.

Returns a flag for each use: true if this call consumed it. A use is refused if it was consumed before. It is
also refused if its count is too high, or too far ahead of the stored bits. A nonce has one bit for each
count, so counts may arrive in any order.
]]

-- Maximum count of a nonce. The bits of a nonce then take at most 20 KB of Redis.
local MAX_COUNT = 65535
-- Maximum distance of a count from the end of the stored bits. A client that uses one nonce on many
-- connections can be out of order by one count for each connection. One request can allocate at most this
-- many bits.
local MAX_AHEAD = 1024

local function consume(call, nonce, count, kept_ms)
  local uses = call.keys.nonce_uses(nonce)
  local bytes = redis.call('STRLEN', uses)
  if count > MAX_COUNT or count > bytes * 8 + MAX_AHEAD then return false end
  local is_new = redis.call('SETBIT', uses, count, 1) == 0
  if bytes == 0 then redis.call('PEXPIRE', uses, kept_ms) end
  return is_new
end

-- The uses of a nonce expire `kept_ms` after its first use.
return function(call, args)
  local are_new = {}
  for i, use in ipairs(args.uses) do are_new[i] = consume(call, use.nonce, use.count, args.kept_ms) end
  return are_new
end
