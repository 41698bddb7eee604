--[[
Digest keys: the keys that sign nonces, and when they must be replaced.

In the hash `digest:keys`, the field of a key is the hour in which the key signs. A Redis that was restarted, or that
replaces another, may have forgotten nonce uses although it knows the keys. Then all keys are replaced, and the nonces
that they signed are no longer accepted. A replaced key stays for a day, so that its nonces are still recognised as
nonces of this bus. The field of a replaced key is its hour, a dot and the time (ms) of the replacement.
]]
local redis_run = include('store/redis_run')
local digest_keys = { HOUR_MS = 3600000 }

-- Replaces all keys that sign nonces. The bus no longer accepts the nonces that the old keys signed.
function digest_keys.replace(call)
  local keys = call.keys
  local fields = redis.call('HGETALL', keys.digest_keys())
  for i = 1, #fields, 2 do
    local hour, key = fields[i], fields[i + 1]
    if not hour:find('.', 1, true) then
      redis.call('HSET', keys.digest_keys(), string.format('%s.%d', hour, call.now_ms), key)
      redis.call('HDEL', keys.digest_keys(), hour)
    end
  end
end

-- Replaces all keys that sign nonces if the `run_id` shows that Redis was restarted or replaced, because such a Redis
-- may have forgotten which nonces were used. If no earlier `run_id` is stored, for example after an upgrade, the keys
-- stay.
function digest_keys.replace_after_restart(call)
  local keys, run = call.keys, redis_run.id()
  local known = redis.call('GET', keys.digest_run())
  if not run or run == known then return end
  redis.call('SET', keys.digest_run(), run)
  if known then digest_keys.replace(call) end
end

return digest_keys
