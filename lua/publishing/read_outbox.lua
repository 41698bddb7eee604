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

-- Returns the key of a list of outbox entries (`outbox`, or the entries set aside for `partition`), and the hash and
-- the field that have the sum of its bytes.
local function places(keys, partition)
  if partition then return keys.outbox_aside(partition), keys.outboxes_bytes(), partition end
  return keys.outbox(), keys.outboxes_sent(), 'bytes'
end

-- Removes the entries that the previous call returned, if they are still there. Before, sets copies aside for the
-- partitions that have not applied them in time (`late`).
local function remove_first(call, args, list, hash, field)
  local entry = args.last and redis.call('LINDEX', list, args.count - 1)
  if not entry or outboxes.number_of(entry) ~= args.last then return end
  if #args.late > 0 then outboxes.set_aside(call, redis.call('LRANGE', list, 0, args.count - 1), args.late) end
  redis.call('LTRIM', list, args.count, -1)
  redis.call('HINCRBY', hash, field, -args.bytes)
end

-- Returns as many of the next entries of a list as fit into the reply. If `bytes`, the sum of the whole list, fits, the
-- entries need not be measured, which saves a third of the time for 500 short entries.
local function next_entries(args, list, bytes)
  local max_entries = args.max_entries
  if bytes <= args.max_bytes then return redis.call('LRANGE', list, 0, max_entries - 1) end
  local entries, read_bytes = {}, 0
  while #entries < max_entries do
    local read = redis.call('LRANGE', list, #entries, math.min(#entries + READ_AT_ONCE, max_entries) - 1)
    if #read == 0 then return entries end
    for _, entry in ipairs(read) do
      read_bytes = read_bytes + #entry
      if #entries > 0 and read_bytes > args.max_bytes then return entries end
      entries[#entries + 1] = entry
    end
  end
  return entries
end

return function(call, args)
  local list, hash, field = places(call.keys, args.partition)
  remove_first(call, args, list, hash, field)
  local entries, ended = next_entries(args, list, tonumber(redis.call('HGET', hash, field)) or 0), false
  if #entries == 0 then
    -- The list is empty, so its sum of bytes is removed. With `partition`, this ends the setting aside: as long as a
    -- partition has such a sum, new entries for it are set aside. The sum is 0 already, unless Redis was killed and
    -- kept only the first writes of a script.
    redis.call('HDEL', hash, field)
    ended = args.worker and outboxes.end_job(call, args.partition, args)
  end
  return { entries = entries, behind = redis.call('HKEYS', call.keys.outboxes_bytes()), ended = ended }
end
