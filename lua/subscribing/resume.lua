#!lua flags=allow-oom
--[[
resume: deliver to a paused subscriber again. It is tried at once, even if it was held back after a failure. A
subscriber cannot resume itself after an operator paused it: `paused_by_operator`. It is not an error if it was not
paused.
]]
local pausing = include('pausing')

return function(call, args)
  local token = args.token
  if redis.call('SISMEMBER', call.keys.subscribers(), token) == 0 then return 'subscriber_not_found' end
  if args.by ~= 'operator' and pausing.paused_by(call, token) == 'operator' then return 'paused_by_operator' end
  if pausing.lift(call, token) then pausing.try_at_once(call, token, args.lane_limit_max) end
  return 'ok'
end
