#!lua flags=allow-oom
--[[
pause: deliver nothing more to a subscriber until it is resumed. Its jobs wait; deliveries in flight go on. `by` says
who pauses it. If the subscriber is paused already, an operator's pause replaces any other cause, and the subscriber's
own pause replaces the cause "callback gone" (410). In all other cases, a pause of a paused subscriber changes nothing.
]]
local pausing = include('subscribing/pausing')

return function(call, args)
  if redis.call('SISMEMBER', call.keys.subscribers(), args.token) == 0 then return 'subscriber_not_found' end
  pausing.pause(call, args.token, args.by)
  return 'ok'
end
