#!lua flags=allow-oom
--[[
report: record the counts of counters that were sent to the metric service.

`to` is the count that was sent; `from` is the count recorded before, or 0 if there is none. A recorded count
that is not `from` stays unchanged, because another worker has recorded it meanwhile. So repeating a call
changes nothing. The script runs even when memory is exhausted (`allow-oom`). Otherwise the same counts
would be sent again and again.
]]
return function(call, args)
  local reported = call.keys.counters_reported()
  for _, each in ipairs(args.reports) do
    if (redis.call('HGET', reported, each.field) or '0') == each.from then
      redis.call('HSET', reported, each.field, each.to)
    end
  end
  return true
end
