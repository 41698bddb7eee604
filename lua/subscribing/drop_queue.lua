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
  attempts:{bid}             list
  batches:open               hash
  batches:current:{token}    set
  batches:gauges:event       hash
  batches:gauges:batch       hash
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       zset
  subscriber:{token}         hash    probe; reads paused_at, ordered
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
-- include: open_batch
-- include: batches
-- include: drop

local token, n, untl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held, held_count = jobs_held()

local batches, events = 0, 0
for _, bid in ipairs(redis.call('ZRANGE', key.batches_queued(token), 0, n + held_count - 1)) do
  local job, batch = batch_job(bid), key.batch(bid)
  -- By what the batch says: in the queue of an ordered subscriber it can stand at a later time.
  local created = redis.call('LINDEX', batch, 1)
  if batches < n and not held[job] and (tonumber(created) or 0) <= untl then
    if created then
      local its_events = redis.call('LLEN', batch) - HEAD
      drop_batch(bid, job, token, its_events)
      events = events + its_events
    else
      redis.call('ZREM', key.batches_queued(token), bid)
      drop_batch(bid, job)
      settle_lane(token, { job })
    end
    batches = batches + 1
  end
end
settle_drops()
announce()
return { batches, events }
