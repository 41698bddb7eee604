#!lua flags=allow-oom
--[[
retire: forget workers that end. A worker that still holds a job is left to the scrub.

Jobs that their last acks brought back are announced, as nobody was told of them.

KEYS
  schema                     string  names the partition
TOUCHES
  workers                    hash
  workers:main               set
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:instant:{q}           list
  shares:jobs:{share}        list
  shares:workers:{share}     set
ARGV
  q                          the queue
  worker…                    the workers
RETURNS
  how many were forgotten
]]
-- include: jobs
-- include: lanes

local q = ARGV[1]
local forgotten = 0
for i = 2, #ARGV do
  local worker = ARGV[i]
  if redis.call('LLEN', key.jobs_pending(q, worker)) == 0 then
    redis.call('SREM', key.jobs_pending_index(q), worker)
    forgotten = forgotten + redis.call('HDEL', key.workers(), worker)
    redis.call('SREM', key.workers_main(), worker)
  end
end
if count_ready(q) > 0 then wakes[q] = true end
announce()
return forgotten
