#!lua flags=allow-oom
--[[
schedule: promote (make instant) at most `limit` scheduled jobs that are due. Jobs of a queue are promoted in deadline
order.

`promoted` is the number of jobs that became instant. `next_due_us` is the time until the next job is due (µs). It is 0
if due jobs are left, and missing if no job is scheduled. `delayed_due_us`, `triggers_due_us` and `joins_due_us` are the
times until a delayed event, a trigger or an expiring join key is due (agenda.lua); other scripts publish these.
]]
local agenda = include('flow/agenda')
local jobs = include('delivering/jobs')

return function(call, args)
  -- The time keeps its fraction. Example: a job is due at 1000.5 ms, and it is 1000.7 ms now. If this were cut to 1000,
  -- the job would not be promoted, and the caller would call again immediately, in vain.
  local promoted, now_ms, next_due_ms = 0, call.now_us / 1000, math.huge
  for _, q in ipairs({ 'main', 'aux' }) do
    local scheduled = call.keys.jobs_scheduled(q)
    local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now_ms, 'LIMIT', 0, args.limit - promoted)
    for _, job in ipairs(due) do
      redis.call('ZREM', scheduled, job)
      jobs.make_instant(call, q, job)
    end
    promoted = promoted + #due
    local first = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2])
    next_due_ms = math.min(next_due_ms, first or math.huge)
  end
  return {
    promoted = promoted,
    next_due_us = next_due_ms ~= math.huge and math.max(0, next_due_ms * 1000 - call.now_us) or nil,
    delayed_due_us = agenda.due_in_us(call, call.keys.delayed_topics()),
    triggers_due_us = agenda.due_in_us(call, call.keys.triggers_due()),
    joins_due_us = agenda.due_in_us(call, call.keys.joins_expiring()),
  }
end
