#!lua flags=allow-oom
--[[
drop_queue: delete batches of one subscriber that has unsubscribed, with their jobs.

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
RETURNS
  batches                    how many batches were deleted; 0: there is nothing left to drop
  events                     how many events they held
]]
-- include: jobs
-- include: waiting
-- include: batches
-- include: drop

local token, n = ARGV[1], tonumber(ARGV[2])
local held = jobs_held()
local held_count = 0
for _ in pairs(held) do held_count = held_count + 1 end

local batches, events = 0, 0
for _, bid in ipairs(redis.call('ZRANGE', key.batches_queued(token), 0, n + held_count - 1)) do
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
