#!lua flags=allow-oom
--[[
read_outbox: read the next entries of the list `outbox` (outboxes.lua). First removes the entries that were read before,
which the other partitions have applied.

The first `count` entries have `bytes` bytes; `last` is the number of the last of them. They are set aside for the
partitions in `late`, which did not apply them in time, and then removed. If another call has removed some of them
already, nothing is removed, and entries are read again; a partition ignores entries that it has applied. Without
`last`, nothing is removed either.

The reply has at most `max_entries` entries and about `max_bytes`, but at least one entry if `outbox` is not empty.
`behind` has the partitions for which entries are set aside. These partitions must apply those entries before any entry
of `outbox`.

If `outbox` is empty, the job that `worker` holds is deleted in the same step, and `ended` is true. So if an entry comes
later, there is no job, and a new job is queued. Without `worker`, no job is deleted.
]]
local outboxes = include('publishing/outboxes')

-- Removes the first `count` entries of the outbox; the last of these has the number `last`. First copies them to the
-- lists of the partitions in `late`, which did not apply them in time. Does nothing without `last`, or if another call
-- has removed some of the entries already. Returns the bytes left in the outbox.
local function remove_first(call, args)
  local outbox, sent = call.keys.outbox(), call.keys.outboxes_sent()
  local entry = args.last and redis.call('LINDEX', outbox, args.count - 1)
  if not entry or outboxes.number_of(entry) ~= args.last then return tonumber(redis.call('HGET', sent, 'bytes')) or 0 end
  if #args.late > 0 then outboxes.set_aside(call, redis.call('LRANGE', outbox, 0, args.count - 1), args.late) end
  redis.call('LTRIM', outbox, args.count, -1)
  return redis.call('HINCRBY', sent, 'bytes', -args.bytes)
end

-- Returns the next entries of the outbox, which has `left` bytes. If these are at most `max_bytes`, reads the entries
-- with a single command, because they need not be measured.
local function next_entries(call, args, left)
  local outbox = call.keys.outbox()
  if left > args.max_bytes then return outboxes.first_entries(outbox, args.max_entries, args.max_bytes) end
  return redis.call('LRANGE', outbox, 0, args.max_entries - 1)
end

return function(call, args)
  local left = remove_first(call, args)
  local entries = next_entries(call, args, left)
  if #entries > 0 then
    return { entries = entries, behind = redis.call('HKEYS', call.keys.outboxes_bytes()), ended = false }
  end
  -- An empty outbox has 0 bytes. `left` is another number if Redis was killed and kept only the first writes of a
  -- script.
  if left ~= 0 then redis.call('HSET', call.keys.outboxes_sent(), 'bytes', 0) end
  local ended = args.worker and outboxes.end_job(call, nil, args.worker, args.lease, args.lease_ms)
  return { entries = entries, behind = redis.call('HKEYS', call.keys.outboxes_bytes()), ended = ended }
end
