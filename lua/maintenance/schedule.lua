#!lua flags=allow-oom
--[[
schedule: make the scheduled jobs that are due instant, in the order of their deadlines.

KEYS
  schema                     string  names the partition
TOUCHES
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
ARGV
  limit                      the most jobs to promote in this call
  q…                         the queues
RETURNS
  promoted                   how many jobs became instant
  next_due_us                in how many µs the next is due, 0 if some are left over, -1 if none is scheduled
]]
-- include: now
-- include: jobs

local limit = tonumber(ARGV[1])
local promoted, next_due = 0, math.huge
for i = 2, #ARGV do
  local q = ARGV[i]
  local scheduled = key.jobs_scheduled(q)
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, limit - promoted)) do
    redis.call('ZREM', scheduled, job)
    make_instant(q, job)
    promoted = promoted + 1
  end
  next_due = math.min(next_due, tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]) or math.huge)
end
announce()
if next_due == math.huge then return { promoted, -1 } end
return { promoted, math.max(0, (next_due - now) * 1000 - time[2] % 1000) }
