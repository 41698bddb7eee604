#!lua flags=allow-oom
--[[
nonce_uses: consume nonce uses (one `nc` count of a Digest nonce), each once.

A nonce has a bit for each count, so counts may come in any order. The reply says for each use if it was
new. A use is also refused where its count is too high, or too far ahead of the counts that were used.
]]

-- At 20 KB of Redis a nonce has served long enough.
local MAX_COUNT = 65535
-- A client that shares a nonce between connections is out of order by as many counts as it has connections.
-- No single request takes more memory than this many bits.
local MAX_AHEAD = 1024

local function consume(call, nonce, count, kept_ms)
  local uses = call.keys.nonce_uses(nonce)
  local bytes = redis.call('STRLEN', uses)
  if count > MAX_COUNT or count > bytes * 8 + MAX_AHEAD then return false end
  local is_new = redis.call('SETBIT', uses, count, 1) == 0
  if bytes == 0 then redis.call('PEXPIRE', uses, kept_ms) end
  return is_new
end

-- kept_ms: how long the uses of a nonce are kept, from the first.
return function(call, args)
  local are_new = {}
  for i, use in ipairs(args.uses) do are_new[i] = consume(call, use.nonce, use.count, args.kept_ms) end
  return are_new
end
