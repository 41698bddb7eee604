#!lua flags=allow-oom
--[[
read_outbox: read the next entries of the list `outbox`, or with `partition` those that are set aside for this partition
(outboxes.lua).

First removes the entries that the previous call returned: the first `count` entries of the list, which have `bytes`
bytes and end with the entry whose number is `last`. The other partitions have applied them, except those in `late`, for
which the entries are set aside. If another call has removed some of them already, this call removes nothing and may
return entries a second time; a partition ignores entries that it has applied. Without `last`, nothing is removed.

The reply has at most `max_entries` entries and about `max_bytes`, but at least one entry if the list is not empty.
`behind` has the partitions for which entries are set aside. These partitions must apply those entries before any entry
of `outbox`.

If the list is empty, the job that `worker` holds is deleted in the same step, and `ended` is true. So an entry that
comes later finds no job, and a new one is queued. Without `worker`, no job is deleted.
]]
local outboxes = include('publishing/outboxes')

-- Number of entries that one command reads if their bytes must be measured. It is small, because an entry can have
-- megabytes, and all entries that a script reads are in Redis's memory at once.
local READ_AT_ONCE = 8

-- Returns where a list of outbox entries is: its key (`outbox`, or the entries set aside for `partition`), and the hash
-- and the field that have the sum of its bytes.
local function places(keys, partition)
  if partition then return keys.outbox_aside(partition), keys.outboxes_bytes(), partition end
  return keys.outbox(), keys.outboxes_sent(), 'bytes'
end

-- Removes the entries that the previous call returned, if they are still there. Some partitions have not applied them
-- in time (`late`): before the entries are removed, those for a late partition are copied to a list for this partition
-- alone. Returns the bytes that are left in `list`.
local function remove_first(call, args, list, hash, field)
  local entry = args.last and redis.call('LINDEX', list, args.count - 1)
  if not entry or outboxes.number_of(entry) ~= args.last then return tonumber(redis.call('HGET', hash, field)) or 0 end
  if #args.late > 0 then outboxes.set_aside(call, redis.call('LRANGE', list, 0, args.count - 1), args.late) end
  redis.call('LTRIM', list, args.count, -1)
  return redis.call('HINCRBY', hash, field, -args.bytes)
end

-- Returns as many of the next entries of a list as fit into the reply. `left` is the number of bytes in the list. If
-- `left` is not too much for the reply, the entries need not be measured, which saves a third of the time for 500 short
-- entries.
local function next_entries(args, list, left)
  local max_entries = args.max_entries
  if left <= args.max_bytes then return redis.call('LRANGE', list, 0, max_entries - 1) end
  local entries, bytes = {}, 0
  while #entries < max_entries do
    local read = redis.call('LRANGE', list, #entries, math.min(#entries + READ_AT_ONCE, max_entries) - 1)
    if #read == 0 then return entries end
    for _, entry in ipairs(read) do
      bytes = bytes + #entry
      if #entries > 0 and bytes > args.max_bytes then return entries end
      entries[#entries + 1] = entry
    end
  end
  return entries
end

return function(call, args)
  local partition, keys = args.partition, call.keys
  local list, hash, field = places(keys, partition)
  local left, ended = remove_first(call, args, list, hash, field), false
  local entries = next_entries(args, list, left)
  if #entries == 0 then
    if partition then
      -- The list is empty: no entry is set aside for the partition any more. So the partition's field is deleted. While
      -- the field exists, new entries for the partition are set aside too; from now on they are sent from the list
      -- `outbox`, as usual.
      redis.call('HDEL', hash, field)
    elseif left ~= 0 then
      -- The list is empty, but the stored sum of its bytes is not 0: Redis was killed and kept only the first writes of
      -- a script. So the sum is corrected.
      redis.call('HSET', hash, field, 0)
    end
    ended = args.worker and outboxes.end_job(call, partition, args)
  end
  return { entries = entries, behind = redis.call('HKEYS', keys.outboxes_bytes()), ended = ended }
end
