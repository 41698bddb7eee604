-- Counts of nonces (nc of Digest). A nonce has a bit for each, so that counts may come in any order. The bits reach no more than
-- MOST_AHEAD beyond what they reach already: no single request takes more than that of memory.

-- At 20 KB of Redis a nonce has served long enough.
local MOST_COUNT = 65535
-- A client that shares a nonce between connections is out of order by as many as it has.
local MOST_AHEAD = 1024

-- Whether the count had not been taken, and now is. `keep_ms`: for how long the counts of a nonce are kept, from the first.
local function take_count(nonce, count, keep_ms)
  local counts, bit = key.digest_counts(nonce), tonumber(count)
  local bytes = redis.call('STRLEN', counts)
  if bit > MOST_COUNT or bit > bytes * 8 + MOST_AHEAD then return false end
  local is_new = redis.call('SETBIT', counts, count, 1) == 0
  if bytes == 0 then redis.call('PEXPIRE', counts, keep_ms) end
  return is_new
end
