#!lua flags=allow-oom
--[[
schedule: promote at most `limit` scheduled jobs that are due. Jobs of a queue are promoted in deadline order.

`promoted` is the number of jobs that became instant. `next_due_us` is the time until the next job is due
(µs). It is 0 if jobs that are due remain, and missing if no job is scheduled.
]]
local jobs = include('jobs')

return function(call, args)
  local promoted, next_due_ms = 0, math.huge
  for _, q in ipairs({ 'main', 'aux' }) do
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
