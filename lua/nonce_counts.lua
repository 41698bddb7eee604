#!lua flags=allow-oom
--[[
nonce_counts: take the counts of nonces (nc of Digest), each once.

A nonce has a bit for each count, so that counts may come in any order. The bits reach no more than `ahead` beyond what
they reach already: no single request takes more than that of memory.

KEYS
  schema                     string  names the partition
TOUCHES
  digest:counts:{nonce}      string  a bit for each count that was taken
ARGV
  keep_ms                    for how long the counts of a nonce are kept, from the first
  most                       the last count that a nonce has
  ahead                      how far a count may be ahead of the others
  nonce, count…              again and again
RETURNS
  text: for each count 1, or 0 where it was taken before, is too far ahead, or beyond the last
]]
local most, ahead = tonumber(ARGV[2]), tonumber(ARGV[3])
local taken = {}
for i = 4, #ARGV, 2 do
  local counts, count = key.digest_counts(ARGV[i]), tonumber(ARGV[i + 1])
  local bytes = redis.call('STRLEN', counts)
  if count > most or count > bytes * 8 + ahead then
    taken[#taken + 1] = '0'
  else
    taken[#taken + 1] = redis.call('SETBIT', counts, count, 1) == 0 and '1' or '0'
    if bytes == 0 then redis.call('PEXPIRE', counts, ARGV[1]) end
  end
end
return table.concat(taken)
