#!lua flags=allow-oom
--[[
remove_trigger: delete a trigger of a client. `state` has the fields and values of its hash, which put_trigger.lua takes
if the trigger is to go on in another partition.
]]
local triggers = include('flow/triggers')

return function(call, args)
  local state = redis.call('HGETALL', call.keys.trigger(args.client, args.name))
  return { removed = triggers.remove(call, args.client, args.name), state = state }
end
