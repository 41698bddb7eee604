#!lua flags=allow-oom
--[[
fold: move the counts of topics and subscribers that no longer exist to the totals. Returns how many of `series` had to
be moved.

Each is a counter with its topic or subscriber (counters.lua). If that topic or subscriber still exists, the counter
stays as it is.
]]
local counters = include('metrics/counters')

return function(call, args)
  local ended = {}
  for _, series in ipairs(args.series) do
    if counters.has_ended(call, series) then ended[#ended + 1] = series end
  end
  counters.fold(call, ended)
  return #ended
end
