#!lua flags=allow-oom
--[[
heartbeat: say that workers are alive.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
ARGV
  worker…                    the workers
RETURNS
  nothing
]]
-- include: now

for _, worker in ipairs(ARGV) do
  redis.call('HSET', key.workers(), worker, now)
end
