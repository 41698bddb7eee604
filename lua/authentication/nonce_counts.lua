#!lua flags=allow-oom
--[[
nonce_counts: take the counts of nonces (nc of Digest), each once.

KEYS
  schema                     string  names the partition
TOUCHES
  digest:counts:{nonce}      string  a bit for each count that was taken
ARGV
  keep_ms                    for how long the counts of a nonce are kept, from the first
  nonce, count…              again and again
RETURNS
  text: for each count 1, or 0 where it was taken before, is too far ahead, or beyond the last
]]
-- include: nonce_counts

local taken = {}
for i = 2, #ARGV, 2 do
  taken[#taken + 1] = take_count(ARGV[i], ARGV[i + 1], ARGV[1]) and '1' or '0'
end
return table.concat(taken)
