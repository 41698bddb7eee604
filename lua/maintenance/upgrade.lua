#!lua flags=allow-oom
--[[
upgrade: note a newer layout, unless workers of the former release are alive.

An old worker cannot read what is stored in the newer layout, and would make dead letters of it. A process that finds the newer
layout does not start if its release is older, so none comes after this. It is not an error if another process was faster.

KEYS
  schema                     string  names the partition
TOUCHES
  schema                     string
  workers                    hash    their heartbeats
ARGV
  from                       the layout that was found
  to                         the newer layout
  lease_ms                   how long a worker is alive without being heard of
RETURNS
  how many workers are alive: then the layout is still the former; 0: it is the newer
]]
-- include: now
-- include: leases

local from, to, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('GET', key.schema()) ~= from then return 0 end
local alive = 0
for _, heard in ipairs(redis.call('HVALS', key.workers())) do
  if not ran_out(heard, lease_ms) then alive = alive + 1 end
end
if alive == 0 then redis.call('SET', key.schema(), to) end
return alive
