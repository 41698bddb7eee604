#!lua flags=allow-oom
--[[
read_aside: read the next entries that are set aside for another partition (outboxes.lua). First removes the entries
that the other partition has applied.

`applied` is the number of the last entry that the other partition has applied. Without it, nothing is removed. The
removal looks only at the first `checked` entries. The reply has at most `max_entries` entries and about `max_bytes`,
but at least one entry if the list is not empty.

If the list is empty, the job that `worker` holds is deleted in the same step, and `ended` is true. So if an entry is
set aside later, there is no job, and a new job is queued. Without `worker`, no job is deleted.
]]
local outboxes = include('publishing/outboxes')

local function remove_applied(call, args)
  local aside = call.keys.outbox_aside(args.partition)
  local count, bytes = 0, 0
  for _, entry in ipairs(redis.call('LRANGE', aside, 0, args.checked - 1)) do
    if outboxes.number_of(entry) > args.applied then break end
    count, bytes = count + 1, bytes + #entry
  end
  if count == 0 then return end
  redis.call('LTRIM', aside, count, -1)
  redis.call('HINCRBY', call.keys.outboxes_bytes(), args.partition, -bytes)
end

return function(call, args)
  if args.applied and args.checked > 0 then remove_applied(call, args) end
  local entries = outboxes.first_entries(call.keys.outbox_aside(args.partition), args.max_entries, args.max_bytes)
  -- While a partition has a field in the hash `outboxes:bytes`, it gets no newer entries from the list `outbox`. So
  -- when nothing is set aside for the partition any more, its field is deleted. The field should be 0 then, but may not
  -- be if Redis was killed and kept only the first writes of a script.
  if #entries == 0 then redis.call('HDEL', call.keys.outboxes_bytes(), args.partition) end
  local ends = #entries == 0 and args.worker
  local ended = ends and outboxes.end_job(call, args.partition, args.worker, args.lease, args.lease_ms)
  return { entries = entries, ended = ended }
end
