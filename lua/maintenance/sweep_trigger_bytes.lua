#!lua flags=allow-oom
--[[
sweep_trigger_bytes: correct the stored bytes of a client's triggers if they differ from the size of its definitions.
Returns the findings.
]]
local findings = include('maintenance/findings')
local triggers = include('flow/triggers/triggers')

return function(call, args)
  local keys, client, bytes, found = call.keys, args.client, 0, {}
  for _, name in ipairs(redis.call('HKEYS', keys.triggers_of(client))) do
    bytes = bytes + redis.call('HSTRLEN', keys.triggers_of(client), name)
  end
  if bytes == triggers.bytes_of(call, client) then return found end
  if bytes > 0 then
    redis.call('HSET', keys.triggers_bytes(), client, bytes)
  else
    redis.call('HDEL', keys.triggers_bytes(), client)
  end
  findings.add(found, 'trigger_bytes_miscounted', client)
  return found
end
