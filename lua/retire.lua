#!lua flags=allow-oom
--[[
retire: forget workers that end. A worker that still holds a job is left to the scrub.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
ARGV
  q                          the queue
  worker…                    the workers
RETURNS
  how many were forgotten
]]
local q = ARGV[1]
local forgotten = 0
for i = 2, #ARGV do
  local worker = ARGV[i]
  if redis.call('LLEN', key.jobs_pending(q, worker)) == 0 then
    redis.call('SREM', key.jobs_pending_index(q), worker)
    forgotten = forgotten + redis.call('HDEL', key.workers(), worker)
  end
end
return forgotten
