#!lua flags=allow-oom
--[[
fold: move the counts of topics and subscribers that no longer exist to the totals. Returns how many it moved.

A series is one such count, with its topic or subscriber (counters.lua). It stays as it is while that still exists.
]]
local counters = include('counters')

return function(call, args)
  local ended = {}
  for _, series in ipairs(args.series) do
    if counters.has_ended(call, series) then ended[#ended + 1] = series end
  end
  return counters.fold(call, ended)
end
