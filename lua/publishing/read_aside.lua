#!lua flags=allow-oom
--[[
read_aside: remove the entries that a partition has applied from those set aside for it, and read the next ones.

`applied` is the number of the last entry that the other partition has applied. Without it, nothing is removed. Only the
first `checked` entries are looked at for that. The reply has at most `max_entries` entries and about `max_bytes`, but
at least one entry if the list is not empty.

If the list is empty, the job that `worker` holds ends in the same step, and `ended` is true. So an entry that is set aside
later finds no job and puts a new one. Without `worker`, no job ends.
]]
local outboxes = include('outboxes')

local function remove_applied(call, args)
  local aside = call.keys.outbox_aside(args.partition)
  local count, bytes = 0, 0
  for _, entry in ipairs(redis.call('LRANGE', aside, 0, args.checked - 1)) do
    if outboxes.number_of(entry) > args.applied then break end
    count, bytes = count + 1, bytes + #entry
  end
  if count == 0 then return end
  redis.call('LTRIM', aside, count, -1)
  -- The field has the size (bytes) of the entries that are set aside for the partition, in a list of its own, because
  -- the partition did not apply them in time. While the field exists, newer entries in `outbox` must wait. So the field
  -- is deleted with the last of the entries that are set aside.
  if redis.call('HINCRBY', call.keys.outboxes_bytes(), args.partition, -bytes) <= 0 then
    redis.call('HDEL', call.keys.outboxes_bytes(), args.partition)
  end
end

return function(call, args)
  if args.applied and args.checked > 0 then remove_applied(call, args) end
  local entries = outboxes.first_entries(call.keys.outbox_aside(args.partition), args.max_entries, args.max_bytes)
  local ends = #entries == 0 and args.worker
  local ended = ends and outboxes.end_job(call, args.partition, args.worker, args.lease, args.lease_ms)
  return { entries = entries, ended = ended }
end
