#!lua flags=no-writes,allow-oom
--[[
holdings: estimate how much memory the queued batches and the dead letters of each subscriber take. Changes nothing.

At most `samples` batches and `samples` dead letters of a subscriber are measured. If `samples` is missing, it is
SHOWN_SAMPLES (sizes.lua). If another program has written the keys of a subscriber, all numbers of the subscriber are 0.
]]
local calls = include('store/calls')
local sizes = include('delivering/sizes')

local function held_by(call, token, samples)
  local queued, queued_bytes, dead, dead_bytes = sizes.of(call.keys, token, samples)
  return { batches = queued, bytes = queued_bytes, dead_letters = dead, dead_letter_bytes = dead_bytes }
end

return function(call, args)
  local held, nothing = {}, { batches = 0, bytes = 0, dead_letters = 0, dead_letter_bytes = 0 }
  for i, token in ipairs(args.tokens) do
    held[i] = calls.skip_wrong_type(held_by, call, token, args.samples) or nothing
  end
  return held
end
