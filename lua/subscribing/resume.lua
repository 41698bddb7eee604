#!lua flags=allow-oom
--[[
resume: deliver to a paused subscriber again. It is tried at once, even if it would have to wait longer after a failure.
If an operator paused it and the subscriber itself asks, nothing changes and the reply is `paused_by_operator`. It is
not an error if the subscriber was not paused.
]]
local pausing = include('subscribing/pausing')

return function(call, args)
  local token = args.token
  if redis.call('SISMEMBER', call.keys.subscribers(), token) == 0 then return 'subscriber_not_found' end
  if args.by ~= 'operator' and pausing.paused_by(call, token) == 'operator' then return 'paused_by_operator' end
  if pausing.lift(call, token) then pausing.try_at_once(call, token, args.lane_limit_max) end
  return 'ok'
end
