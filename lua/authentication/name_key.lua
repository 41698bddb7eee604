#!lua flags=allow-oom
--[[
name_key: return the stored key from which public names are made. If none is stored, stores the given key, for good, and
returns it.
]]
return function(call, args)
  local stored = call.keys.name_key()
  redis.call('SET', stored, args.key, 'NX')
  return redis.call('GET', stored)
end
