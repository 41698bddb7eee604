#!lua flags=allow-oom
--[[
remove_trigger: delete a trigger of a client. With `revision`, deletes it only if its definition has that revision.
Returns true if the trigger was deleted.

With `is_noted`, also stores the time at which the trigger left this partition. If `revision` is given, does so only if
the trigger was deleted. The time is stored because another process may have read the trigger in another partition, and
may bring it here a moment later. receive_trigger then finds the time, and refuses the trigger.
]]
local triggers = include('flow/triggers/triggers')

-- How long Redis keeps the time at which a trigger left this partition: longer than the maximum age of a trigger that
-- receive_trigger accepts (about 21 s).
local KEPT_MS = 30000

return function(call, args)
  local definition = args.revision and redis.call('HGET', call.keys.triggers_of(args.client), args.name)
  if definition and triggers.revision_of(definition) ~= args.revision then return false end
  local was_here = triggers.remove(call, args.client, args.name)
  if args.is_noted and (was_here or not args.revision) then
    local left = call.keys.trigger_left(args.client, args.name)
    redis.call('SET', left, string.format('%d', call.now_us), 'PX', KEPT_MS)
  end
  return was_here
end
