#!lua flags=allow-oom
--[[
pause: deliver nothing more to a subscriber until it is resumed. Its jobs wait; deliveries in flight go on. `by` says
who pauses it. If the subscriber is paused already, an operator's pause replaces any other, and the subscriber's own
pause replaces one because its callback is gone. Otherwise nothing changes.
]]
local pausing = include('subscribing/pausing')

return function(call, args)
  if redis.call('SISMEMBER', call.keys.subscribers(), args.token) == 0 then return 'subscriber_not_found' end
  pausing.pause(call, args.token, args.by)
  return 'ok'
end
