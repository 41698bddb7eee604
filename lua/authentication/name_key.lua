#!lua flags=allow-oom
--[[
name_key: return the key of public names. If there is none, the given key is stored, and kept for good.
]]
return function(call, args)
  local stored = call.keys.name_key()
  redis.call('SET', stored, args.key, 'NX')
  return redis.call('GET', stored)
end
