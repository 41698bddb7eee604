#!lua flags=allow-oom
--[[
nonce_keys: the keys that sign the nonces of Digest, one for each hour; makes those of this hour and the next.

That of the next hour is there in time for every process to know it. A key is kept for a day, by which a nonce that is too old
is known for one of ours.

KEYS
  schema                     string  names the partition
TOUCHES
  digest:keys                hash
ARGV
  key, key                   for this hour and the next, where there is none yet: random
  hour, key…                 what the caller knows: should Redis have lost it, nonces that are in use stay good
RETURNS
  now                        ms
  hour, key…                 whole hours since the Unix epoch, and their keys; again and again
]]
-- include: now
local HOUR_MS, KEPT_HOURS = 3600000, 24

local hour = math.floor(now / HOUR_MS)
for i = 3, #ARGV, 2 do redis.call('HSETNX', key.digest_keys(), ARGV[i], ARGV[i + 1]) end
redis.call('HSETNX', key.digest_keys(), hour, ARGV[1])
redis.call('HSETNX', key.digest_keys(), hour + 1, ARGV[2])
local reply, keys = { now }, redis.call('HGETALL', key.digest_keys())
for i = 1, #keys, 2 do
  if tonumber(keys[i]) < hour - KEPT_HOURS then
    redis.call('HDEL', key.digest_keys(), keys[i])
  else
    reply[#reply + 1] = keys[i]
    reply[#reply + 1] = keys[i + 1]
  end
end
return reply
