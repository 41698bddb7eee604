#!lua flags=allow-oom
--[[
read_outbox: remove the entries that another partition has applied from its outbox, and read the next ones.

`applied` is the number of the last entry that the partition has applied; without it nothing is removed. `checked` is
how many entries at most have a number up to that. The reply has at most `max_entries` entries, and about `max_bytes`:
one entry at least, unless there is none. If there is none, the job of the worker that asks is done: it ends in the
same step, so that an entry that comes later puts the job again. `ended` says so; without `worker` there is no job to
end.
]]
local leases = include('leases')
local outboxes = include('outboxes')

local function remove_applied(call, args)
  local outbox = call.keys.outbox(args.partition)
  local count, bytes = 0, 0
  for _, entry in ipairs(redis.call('LRANGE', outbox, 0, args.checked - 1)) do
    if outboxes.number_of(entry) > args.applied then break end
    count, bytes = count + 1, bytes + #entry
  end
  if count == 0 then return end
  redis.call('LTRIM', outbox, count, -1)
  redis.call('HINCRBY', call.keys.outboxes_bytes(), args.partition, -bytes)
end

local function next_entries(call, args)
  local entries, bytes = {}, 0
  for i, entry in ipairs(redis.call('LRANGE', call.keys.outbox(args.partition), 0, args.max_entries - 1)) do
    bytes = bytes + #entry
    if i > 1 and bytes > args.max_bytes then break end
    entries[i] = entry
  end
  return entries
end

local function end_job(call, args)
  local q, job = 'aux', outboxes.job_for(args.partition)
  if not leases.settle(call, q, args.worker, job, args.lease, args.lease_ms) then return false end
  redis.call('SREM', call.keys.jobs_index(q), job)
  return true
end

return function(call, args)
  if args.applied and args.checked > 0 then remove_applied(call, args) end
  local entries = next_entries(call, args)
  return { entries = entries, ended = #entries == 0 and args.worker ~= nil and end_job(call, args) }
end
