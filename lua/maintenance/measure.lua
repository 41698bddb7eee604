#!lua flags=no-writes,allow-oom
--[[
measure: measure how much memory the next batches of a subscriber take, beginning with the batch number `from`, until
they take `max_bytes` together. With `is_dead`, measures dead letters instead of batches. Without `token`, measures the
batches (or dead letters) of all subscribers. Changes nothing.

`measured` is how many batches the reply is about. It is 0 if no more follow, if `max_bytes` is not above 0, or if
another program has written the index.
]]
local calls = include('store/calls')
local sizes = include('delivering/sizes')

local function measure(call, args)
  local measured, bytes = sizes.measured(call.keys, args.token, args.is_dead, args.from, args.max_bytes)
  return { measured = measured, bytes = bytes }
end

return function(call, args)
  return calls.skip_wrong_type(measure, call, args) or { measured = 0, bytes = 0 }
end
