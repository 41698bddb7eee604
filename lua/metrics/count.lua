#!lua flags=allow-oom
--[[
count: add what one process has counted since its last flush.

The flushes of a process have increasing numbers. A flush that is sent again after its reply was lost counts
once: the reply is false then.
]]
local DAY_SECONDS = 86400

return function(call, args)
  local flushed = call.keys.counters_flushed(args.process)
  if tonumber(redis.call('GET', flushed) or 0) >= args.flush then return false end
  redis.call('SET', flushed, args.flush, 'EX', DAY_SECONDS)
  for _, each in ipairs(args.counts) do
    -- pcall: one field that somebody set to no number must not lose the rest of the flush.
    redis.pcall('HINCRBY', call.keys.counters(), each.field, each.count)
  end
  return true
end
