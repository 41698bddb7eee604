#!lua flags=allow-oom
--[[
fold: move the counts of topics and subscribers that no longer exist to the totals. Returns how many were moved.

`series` names the counts to check (counters.lua). If the topic or subscriber of a count still exists, the count stays
as it is.
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
