#!lua flags=allow-oom
--[[
schedule: make scheduled jobs that are due instant, in the order of their deadlines, `limit` of them at most.

Returns how many became instant, and in how many µs the next job is due: 0 if some are left over, nothing if
none is scheduled.
]]
local jobs = include('jobs')

return function(call, args)
  local promoted, next_due_ms = 0, math.huge
  for _, q in ipairs(args.queues) do
    local scheduled = call.keys.jobs_scheduled(q)
    local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', call.now_ms, 'LIMIT', 0, args.limit - promoted)
    for _, job in ipairs(due) do
      redis.call('ZREM', scheduled, job)
      jobs.make_instant(call, q, job)
    end
    promoted = promoted + #due
    local first = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2])
    next_due_ms = math.min(next_due_ms, first or math.huge)
  end
  if next_due_ms == math.huge then return { promoted = promoted } end
  return { promoted = promoted, next_due_us = math.max(0, next_due_ms * 1000 - call.now_us) }
end
