#!lua flags=allow-oom
--[[
count: add the counts of one process since its last flush to the counters. Returns true if they were added.

A process numbers its flushes in increasing order. A flush that was applied already changes nothing and
returns false. So a process can safely send a flush again after its reply was lost. The number of the last
flush is kept for a day.

Counts of a topic or a subscriber that no longer exists are added to `total`. Otherwise a late flush would bring
back the counters of a topic or subscriber that was removed.
]]
local counters = include('metrics/counters')

local DAY_SECONDS = 86400

return function(call, args)
  local flushed = call.keys.counters_flushed(args.process)
  if tonumber(redis.call('GET', flushed) or 0) >= args.flush then return false end
  redis.call('SET', flushed, args.flush, 'EX', DAY_SECONDS)
  for _, each in ipairs(args.counts) do
    local field = counters.has_ended(call, each) and each.total or each.field
    -- HINCRBY fails if the stored value is not a number. `pcall` ignores the failure, so that the other counts are
    -- added.
    redis.pcall('HINCRBY', call.keys.counters(), field, each.count)
  end
  return true
end
