#!lua flags=allow-oom
--[[
nonce_keys: return Redis's time and the keys that sign Digest nonces, one key for each hour.

Hours are whole hours since the Unix epoch. The keys of this hour and the next are created if they are
missing. The next key is created early so that every process has fetched it before it is used. A key is kept
for a day after its hour, so that an expired nonce is still recognised as one of this bus.
]]
local HOUR_MS, KEPT_HOURS = 3600000, 24

-- `key_of_this_hour` and `key_of_next_hour` are random keys. Each is stored only if its hour has no key yet.
-- `known_keys` are the keys that the caller knows. They are stored again if Redis has lost them, so that
-- nonces in use stay valid.
return function(call, args)
  local stored = call.keys.digest_keys()
  local this_hour = math.floor(call.now_ms / HOUR_MS)
  for _, known in ipairs(args.known_keys) do redis.call('HSETNX', stored, known.hour, known.key) end
  redis.call('HSETNX', stored, this_hour, args.key_of_this_hour)
  redis.call('HSETNX', stored, this_hour + 1, args.key_of_next_hour)
  local kept, fields = {}, redis.call('HGETALL', stored)
  for i = 1, #fields, 2 do
    local hour, key = fields[i], fields[i + 1]
    if tonumber(hour) < this_hour - KEPT_HOURS then
      redis.call('HDEL', stored, hour)
    else
      kept[#kept + 1] = { hour = hour, key = key }
    end
  end
  return { now_ms = call.now_ms, keys = kept }
end
