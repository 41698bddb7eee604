#!lua flags=allow-oom
--[[
remove_trigger: delete a trigger of a client. Returns true if there was one.
]]
local triggers = include('flow/triggers')

return function(call, args)
  return triggers.remove(call, args.client, args.name)
end
