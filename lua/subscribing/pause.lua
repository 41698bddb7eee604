#!lua flags=allow-oom
--[[
pause: deliver nothing more to a subscriber until it is resumed. Its jobs wait; deliveries in flight go on. `by` says
who pauses it. A pause by an operator replaces one by the subscriber itself, or one because its callback is gone.
Pausing it again changes nothing.
]]
local pausing = include('pausing')

return function(call, args)
  if redis.call('SISMEMBER', call.keys.subscribers(), args.token) == 0 then return 'subscriber_not_found' end
  pausing.pause(call, args.token, args.by)
  return 'ok'
end
