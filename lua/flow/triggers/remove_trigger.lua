#!lua flags=allow-oom
--[[
remove_trigger: delete a trigger of a client. With `revision`, deletes it only if its definition has that revision.
Returns true if the trigger was deleted.
]]
local triggers = include('flow/triggers/triggers')

return function(call, args)
  local definition = args.revision and redis.call('HGET', call.keys.triggers_of(args.client), args.name)
  if definition and triggers.revision_of(definition) ~= args.revision then return false end
  return triggers.remove(call, args.client, args.name)
end
