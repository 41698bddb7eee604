#!lua flags=allow-oom
--[[
remove_subscriber: delete a subscriber, its subscriptions and its drop notices, but not its batches.

Returns `found`, which is true if there was such a subscriber, and `now_ms`, Redis's time. The caller next deletes
the dead letters (purge) and the batches created up to `now_ms` (drop_queue). Later batches belong to a new
subscription and must stay. The counts of the subscriber move to the totals in the same step; `series` lists them. A
topic without a publisher ends with its last subscription. A join ends with its open keys.
]]
local counters = include('counters')
local leaving = include('leaving')

return function(call, args)
  local found = leaving.leave(call, args.token)
  counters.fold(call, args.series)
  return { found = found, now_ms = call.now_ms }
end
