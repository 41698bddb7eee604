#!lua flags=allow-oom
--[[
nonce_keys: return Redis's time and the keys that sign Digest nonces, one key for each hour.

Hours are whole hours since the Unix epoch. The keys of this hour and the next are created if they are
missing. The next key is created early so that every process has fetched it before it is used. A key is kept
for a day after its hour, so that an expired nonce is still recognised as one of this bus. `replaced` is true
for a key that must sign nothing any more.
]]
local digest_keys = include('authentication/digest_keys')

local KEPT_HOURS = 24

-- `key_of_this_hour` and `key_of_next_hour` are random keys for signing nonces. A key is stored only if none is stored
-- for its hour yet. So all processes sign with the key that was stored first.
return function(call, args)
  local stored = call.keys.digest_keys()
  local this_hour = math.floor(call.now_ms / digest_keys.HOUR_MS)
  digest_keys.replace_after_restart(call)
  redis.call('HSETNX', stored, this_hour, args.key_of_this_hour)
  redis.call('HSETNX', stored, this_hour + 1, args.key_of_next_hour)
  local kept, fields = {}, redis.call('HGETALL', stored)
  for i = 1, #fields, 2 do
    local field, key = fields[i], fields[i + 1]
    local hour = math.floor(tonumber(field))
    if hour < this_hour - KEPT_HOURS then
      redis.call('HDEL', stored, field)
    else
      kept[#kept + 1] = { hour = hour, key = key, replaced = field ~= tostring(hour) }
    end
  end
  return { now_ms = call.now_ms, keys = kept }
end
