#!lua flags=allow-oom
--[[
report: note up to which count the counters were sent to the metric service. Returns how many were noted.

`from` is the count noted before (0: none). A counter of which another worker has noted something meanwhile is
left alone, so noting again changes nothing. It runs when memory is exhausted: otherwise the same counts would
be sent again and again.
]]
return function(call, args)
  local reported, noted = call.keys.counters_reported(), 0
  for _, each in ipairs(args.reports) do
    if (redis.call('HGET', reported, each.field) or '0') == each.from then
      redis.call('HSET', reported, each.field, each.to)
      noted = noted + 1
    end
  end
  return noted
end
