#!lua flags=allow-oom
--[[
read_outbox: read the next entries of the list `outbox`, or with `partition` those that are set aside for this partition
(outboxes.lua). First removes the entries that were read before, which the other partitions have applied.

The first `count` entries have `bytes` bytes; `last` is the number of the last of them. They are set aside for the
partitions in `late`, which did not apply them in time, and then removed. If another call has removed some of them
already, nothing is removed, and entries are read again; a partition ignores entries that it has applied. Without
`last`, nothing is removed either.

The reply has at most `max_entries` entries and about `max_bytes`, but at least one entry if the list is not empty.
`behind` has the partitions for which entries are set aside. These partitions must apply those entries before any entry
of `outbox`.

If the list is empty, the job that `worker` holds is deleted in the same step, and `ended` is true. So if an entry comes
later, there is no job, and a new job is queued. Without `worker`, no job is deleted.
]]
local outboxes = include('publishing/outboxes')

-- Returns the list of entries, and the hash and the field with the sum of their bytes.
local function places(keys, partition)
  if partition then return keys.outbox_aside(partition), keys.outboxes_bytes(), partition end
  return keys.outbox(), keys.outboxes_sent(), 'bytes'
end

-- Removes the entries that were read before, and sets them aside for the partitions in `late`. Returns the bytes of the
-- entries that are left.
local function remove_first(call, args, list, hash, field)
  local entry = args.last and redis.call('LINDEX', list, args.count - 1)
  if not entry or outboxes.number_of(entry) ~= args.last then return tonumber(redis.call('HGET', hash, field)) or 0 end
  if #args.late > 0 then outboxes.set_aside(call, redis.call('LRANGE', list, 0, args.count - 1), args.late) end
  redis.call('LTRIM', list, args.count, -1)
  return redis.call('HINCRBY', hash, field, -args.bytes)
end

-- Returns the next entries of a list with `left` bytes. If these are at most `max_bytes`, a single command reads the
-- entries, because they need not be measured.
local function next_entries(args, list, left)
  if left > args.max_bytes then return outboxes.first_entries(list, args.max_entries, args.max_bytes) end
  return redis.call('LRANGE', list, 0, args.max_entries - 1)
end

return function(call, args)
  local partition, keys = args.partition, call.keys
  local list, hash, field = places(keys, partition)
  local left, ended = remove_first(call, args, list, hash, field), false
  local entries = next_entries(args, list, left)
  if #entries == 0 then
    if partition then
      -- While a partition has a field in `outboxes:bytes`, it gets no newer entries from `outbox`.
      redis.call('HDEL', hash, field)
    elseif left ~= 0 then
      -- The stored sum of bytes is wrong: Redis was killed, and kept only the first writes of a script.
      redis.call('HSET', hash, field, 0)
    end
    ended = args.worker and outboxes.end_job(call, partition, args.worker, args.lease, args.lease_ms)
  end
  return { entries = entries, behind = redis.call('HKEYS', keys.outboxes_bytes()), ended = ended }
end
