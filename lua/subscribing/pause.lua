#!lua flags=allow-oom
--[[
pause: deliver nothing more to a subscriber until it is resumed. Its jobs wait; deliveries in flight go on. `by` says
who pauses it: an operator takes over the pause of the subscriber itself, and that of a callback that is gone.
Pausing it again changes nothing.
]]
local pausing = include('pausing')

return function(call, args)
  if redis.call('SISMEMBER', call.keys.subscribers(), args.token) == 0 then return 'subscriber_not_found' end
  pausing.pause(call, args.token, args.by)
  return 'ok'
end
