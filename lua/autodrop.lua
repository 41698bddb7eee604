#!lua flags=allow-oom
--[[
autodrop: delete the oldest batches with their jobs, to free memory.

Batches that are being delivered right now are passed over.

KEYS
  schema                     string  names the partition
TOUCHES
  batches:index              zset
  batch:{bid}                list
  batches:current:{token}    set
  batches:index:{token}      zset
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
  n                          the most batches to delete in this call
RETURNS
  batches                    how many batches were deleted; 0: there is nothing left to drop
  dropped                    a list of subscriber, events dropped; again and again
]]
-- include: jobs
-- include: waiting
-- include: batches
-- include: drop

local n = tonumber(ARGV[1])
local held, held_count = jobs_held()

local batches, dropped_of, tokens = 0, {}, {}
for _, bid in ipairs(redis.call('ZRANGE', key.batches_index(), 0, n + held_count - 1)) do
  local job = batch_job(bid)
  if batches < n and not held[job] then
    drop_job(job, redis.call('LINDEX', key.batch(bid), 0))
    local token, events = delete_batch(bid)
    batches = batches + 1
    if token then
      if not dropped_of[token] then
        dropped_of[token] = 0
        tokens[#tokens + 1] = token
      end
      dropped_of[token] = dropped_of[token] + events
    end
  end
end

local dropped = {}
for _, token in ipairs(tokens) do
  dropped[#dropped + 1] = token
  dropped[#dropped + 1] = dropped_of[token]
end
return { batches, dropped }
