#!lua flags=allow-oom
--[[
remove_subscriber: delete a subscriber, its subscriptions and its drop notices, but not its batches.

Returns `found`, which is true if there was such a subscriber, and `now_ms`, Redis's time. The caller next deletes the
dead letters (purge) and the batches created up to `now_ms` (drop_queue). Later batches belong to a new subscription and
must stay. In the same step, the counters of the subscriber (`series`) are added to the totals. A topic without a
publisher is deleted with its last subscription. If the subscriber is a join, its open join keys are deleted too.
]]
local counters = include('metrics/counters')
local leaving = include('subscribing/leaving')

return function(call, args)
  local found = leaving.leave(call, args.token)
  counters.fold(call, args.series)
  return { found = found, now_ms = call.now_ms }
end
