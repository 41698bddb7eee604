#!lua flags=allow-oom
--[[
takeover: bring batches of the Ruby Routemaster into our layout.

Its lists are called batches:{bid}. Each is renamed and entered in its subscriber's index, and gets a job if it has none.
It is not an error if a batch was taken over already, or no longer exists.

KEYS
  schema                     string  names the partition
TOUCHES
  batches:{bid}              list    as the Ruby Routemaster calls it
  batch:{bid}                list
  batches:index              zset
  batches:index:{token}      zset
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
ARGV
  bid…                       the batches
RETURNS
  how many were renamed
]]
-- include: now
-- include: jobs

local renamed = 0
for _, bid in ipairs(ARGV) do
  local old, batch = key.ruby_batch(bid), key.batch(bid)
  if redis.call('EXISTS', old) == 1 then renamed = renamed + redis.call('RENAMENX', old, batch) end
  local head = redis.call('LRANGE', batch, 0, 1)
  if head[1] then
    redis.call('ZADD', key.batches_queued(head[1]), head[2], bid)
    local job = batch_job(bid)
    if redis.call('SADD', key.jobs_index('main'), job) == 1 then make_scheduled('main', job, now) end
  else
    redis.call('ZREM', key.batches_index(), bid)
  end
end
announce()
return renamed
