#!lua flags=allow-oom
--[[
takeover: convert batches of a Ruby Routemaster to the layout of this bus, as a part of the takeover of its Redis.
Returns how many batches were converted.

A batch without a job gets a scheduled job that is due now. A batch that was converted already, or that no
longer exists, is not an error.
]]
local ruby = include('maintenance/ruby')

return function(call, args)
  local keys, converted = call.keys, 0
  for _, bid in ipairs(args.bids) do
    if ruby.adopt(call, bid) then
      converted = converted + 1
    elseif redis.call('EXISTS', keys.ruby_batch(bid), keys.batch(bid)) == 0 then
      redis.call('ZREM', keys.batches_index(), bid)
    end
  end
  return converted
end
