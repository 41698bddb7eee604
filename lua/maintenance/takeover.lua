#!lua flags=allow-oom
--[[
takeover: bring batches of the Ruby Routemaster into our layout.

Its lists are called batches:{bid}. Each is renamed and entered in its subscriber's index, and gets a job if it has none. Of
the current batches of a subscriber one takes its events from now on; others are closed.
It is not an error if a batch was taken over already, or no longer exists.

KEYS
  schema                     string  names the partition
TOUCHES
  batches:{bid}              list    as the Ruby Routemaster calls it
  batch:{bid}                list
  batches:index              zset
  batches:open               hash
  batches:current:{token}    set
  subscriber:{token}         hash    reads max_events
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
-- include: open_batch

local function take_over_current(token, bid, attempts)
  if redis.call('SISMEMBER', key.batches_current(token), bid) == 0 then return end
  local most = most_events(redis.call('HGET', key.subscriber(token), 'max_events'))
  if attempts == '0' then redis.call('HSETNX', key.batches_open(), token, open_entry(bid, most)) end
  local entry = redis.call('HGET', key.batches_open(), token)
  if not entry or read_entry(entry) ~= bid then redis.call('SREM', key.batches_current(token), bid) end
end

local renamed = 0
for _, bid in ipairs(ARGV) do
  local old, batch = key.ruby_batch(bid), key.batch(bid)
  if redis.call('EXISTS', old) == 1 then renamed = renamed + redis.call('RENAMENX', old, batch) end
  local head = redis.call('LRANGE', batch, 0, 2)
  if head[1] then
    redis.call('ZADD', key.batches_queued(head[1]), head[2] * 1000, bid)
    take_over_current(head[1], bid, head[3])
    local job = batch_job(bid)
    if redis.call('SADD', key.jobs_index('main'), job) == 1 then make_scheduled('main', job, now) end
  else
    redis.call('ZREM', key.batches_index(), bid)
  end
end
announce()
return renamed
