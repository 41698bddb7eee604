#!lua flags=allow-oom
--[[
read_outbox: remove the entries that another partition has applied from its outbox, and read the next ones.

`applied` is the number of the last entry that the other partition has applied. Without it, nothing is removed. Only the
first `checked` entries are looked at for that. The reply has at most `max_entries` entries and about `max_bytes`, but
at least one entry if the outbox is not empty.

If the outbox is empty, the job that `worker` holds ends in the same step, and `ended` is true. So an entry that comes
later finds no job and puts a new one. Without `worker`, no job ends.
]]
local leases = include('leases')
local outboxes = include('outboxes')

local READ_AT_ONCE = 8

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

-- Reads a few entries at a time, because an entry can have megabytes and Redis holds all that a script reads in
-- memory.
local function next_entries(call, args)
  local outbox, entries, bytes = call.keys.outbox(args.partition), {}, 0
  while #entries < args.max_entries do
    local last = math.min(#entries + READ_AT_ONCE, args.max_entries) - 1
    local read = redis.call('LRANGE', outbox, #entries, last)
    if #read == 0 then return entries end
    for _, entry in ipairs(read) do
      bytes = bytes + #entry
      if #entries > 0 and bytes > args.max_bytes then return entries end
      entries[#entries + 1] = entry
    end
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
