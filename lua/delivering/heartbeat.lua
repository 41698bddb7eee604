#!lua flags=allow-oom
--[[
heartbeat: renew the leases of workers, and tell them which they have lost.

A lease that has run out, or is another's by now, is not renewed.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  leases                     hash
ARGV
  lease_ms                   how long a worker holds a job without being heard of
  worker, lease…             the workers, each with the number of its lease; again and again
RETURNS
  the workers whose leases are lost
]]
-- include: now
-- include: leases

local lease_ms = tonumber(ARGV[1])
local lost = {}
for i = 2, #ARGV, 2 do
  local worker, lease = ARGV[i], ARGV[i + 1]
  if redis.call('HGET', key.leases(), worker) ~= lease or is_dead(worker, lease_ms) then
    lost[#lost + 1] = worker
  else
    redis.call('HSET', key.workers(), worker, now)
  end
end
return lost
