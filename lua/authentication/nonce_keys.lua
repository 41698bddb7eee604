#!lua flags=allow-oom
--[[
nonce_keys: the keys that sign the nonces of Digest, one for each hour. Makes those of this hour and the next.

The key of the next hour is there in time for every process to know it. A key is kept for a day, so that a
nonce that is too old is still recognised as ours.
]]
local HOUR_MS, KEPT_HOURS = 3600000, 24

-- key_of_this_hour, key_of_next_hour: random keys, stored where there is none yet.
-- known_keys: the keys that the caller knows. Should Redis have lost them, nonces that are in use stay good.
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
