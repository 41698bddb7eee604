#!lua flags=allow-oom
--[[
drop_queue: delete the batches of a subscriber that has unsubscribed, created until then, with their jobs.

Batches that are being delivered right now are passed over.

KEYS
  schema                     string  names the partition
TOUCHES
  batches:index              zset
  batches:index:{token}      zset
  batch:{bid}                list
  batches:current:{token}    set
  batches:gauges:event       hash
  batches:gauges:batch       hash
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       list
  subscriber:{token}         hash    probe
ARGV
  token                      the subscriber
  n                          the most batches to delete in this call
  until                      ms: batches that were created later stay
RETURNS
  batches                    how many batches were deleted; 0: there is nothing left to drop
  events                     how many events they held
]]
-- include: jobs
-- include: waiting
-- include: batches
-- include: drop

local token, n, untl = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local held, held_count = jobs_held()

local batches, events = 0, 0
for _, bid in ipairs(redis.call('ZRANGEBYSCORE', key.batches_queued(token), '-inf', untl, 'LIMIT', 0, n + held_count)) do
  local job = batch_job(bid)
  if batches < n and not held[job] then
    drop_job(job, token)
    local _, held_events = delete_batch(bid)
    -- Where its list is gone, delete_batch does not know the subscriber.
    redis.call('ZREM', key.batches_queued(token), bid)
    batches = batches + 1
    events = events + (held_events or 0)
  end
end
return { batches, events }
