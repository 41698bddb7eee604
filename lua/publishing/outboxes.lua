--[[
Outboxes: the work that other partitions must do for this partition.

The list `outbox` has the entries for all other partitions, in the order in which the partitions must apply them. An
entry is its number in 16 digits, the numbers of the partitions that must apply it, a colon, and a list in MessagePack,
such as `17954000000000003,5:` and `{ kind, topic, about }`. The kinds are:

- `events`, a topic and its events: give the events to the topic's subscribers in the other partition;
- `end`, a topic and false: the topic was removed, so end its subscriptions in the other partition;
- `publish`, a topic and `{ client, join, events }`: the topic lives in the other partition, and a join of this
  partition publishes the events to it. Only earlier releases read `join`.

If a partition does not apply its entries in time, they are set aside for that partition in the list
`outbox:{partition}`, so that the other partitions need not wait. Until that list is empty, further entries for the
partition are also set aside, which keeps them in order.

The number of an entry (outbox_numbers.lua) is higher than that of the entry before. It is the time (µs) at which the
entry was added, unless numbers are ahead of the clock. Then the entry has this time as the fourth item of its list.
]]
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')
local many = include('store/many')
local outbox_numbers = include('publishing/outbox_numbers')
local outboxes = {}

local NUMBER_LENGTH = 16
-- If a partition has not applied entries in time, they are set aside, and sent to the partition again after this time.
local ASK_AGAIN_MS = 1000

-- Returns the number of an outbox entry: its first 16 digits.
function outboxes.number_of(entry)
  return tonumber(entry:sub(1, NUMBER_LENGTH))
end

-- Reads the work that an outbox entry describes. Returns the kind of work, the topic, the data for this kind of work,
-- and the time (µs) at which the entry was added. The time is nil if the entry's number serves as the time.
function outboxes.work_of(entry)
  return unpack(cmsgpack.unpack(entry:sub(entry:find(':', NUMBER_LENGTH + 1, true) + 1)))
end

-- Returns the packed job that sends the entries of the list `outbox` or, with `partition`, those that are set aside for
-- this partition.
local function job_for(partition)
  return cmsgpack.pack({ 'outbox', { tonumber(partition) } })
end

-- Deletes the job that sends a list of outbox entries (see `job_for`). The list must be empty. `args` has the worker,
-- its lease and lease_ms. Returns false if the worker does not hold the job.
function outboxes.end_job(call, partition, args)
  local job = job_for(partition)
  local held = { q = 'aux', worker = args.worker, job = job, lease = args.lease, lease_ms = args.lease_ms }
  if not leases.take_job_and_lease(call, held) then return false end
  redis.call('SREM', call.keys.jobs_index('aux'), job)
  return true
end

-- Creates an empty collection of what one script call has for other partitions. Fields:
--   work   what `store` makes entries of: the partitions, then the list of kind, topic and data
--   sent   the state of the outbox (outbox_numbers.lua), once it was read
--   aside  by partition, the bytes of the entries that are set aside for it, once they were read
function outboxes.begin()
  return { work = {} }
end

-- Returns the state of the outbox, which is read once in a script call.
local function sent_of(call, outgoing)
  outgoing.sent = outgoing.sent or outbox_numbers.read(call)
  return outgoing.sent
end

-- Adds an entry to the collection `outgoing`, which `store` writes. `partitions` has the numbers of the partitions that
-- must apply the entry, separated by commas. `kind` is the kind of work, and `about` its data.
function outboxes.add(outgoing, partitions, kind, topic, about)
  outgoing.work[#outgoing.work + 1] = { partitions, { kind, topic, about } }
end

-- Appends the collected work of a script call to the outbox, and queues the job that sends it. An error while the job
-- is queued does not end the script here, because a caller that repeated the script would append the entries again. The
-- error is kept in `call.failure`, and a sweep queues the job later.
function outboxes.store(call, outgoing)
  if #outgoing.work == 0 then return end
  local keys, sent, entries = call.keys, sent_of(call, outgoing), {}
  local first, bytes = outbox_numbers.next(call, sent), sent.bytes
  for i, piece in ipairs(outgoing.work) do
    local partitions, work = unpack(piece)
    if sent.ahead > 0 then work[4] = call.now_us end
    entries[i] = string.format('%016d%s:', first + i - 1, partitions) .. cmsgpack.pack(work)
    bytes = bytes + #entries[i]
  end
  many.command('RPUSH', keys.outbox(), entries)
  local last = string.format('%d', first + #entries - 1)
  redis.call('HSET', keys.outboxes_sent(), 'last', last, 'bytes', string.format('%d', bytes))
  calls.throw_later(call, jobs.put, 'aux', job_for())
end

-- Notes that the last outbox entry is an `end`, which ends all subscriptions to a topic in another partition: stores
-- its number for `may_end_subscriptions`.
function outboxes.note_end(call)
  local sent = call.keys.outboxes_sent()
  redis.call('HSET', sent, 'ended', redis.call('HGET', sent, 'last'))
end

-- Returns true if an outbox entry `end` may still wait for `partition`. Such an entry ends all subscriptions to a topic
-- in that partition. If a client subscribed to the topic now, the entry would end this new subscription too.
function outboxes.may_end_subscriptions(call, partition)
  local ended = tonumber(redis.call('HGET', call.keys.outboxes_sent(), 'ended') or nil)
  if not ended then return false end
  for _, list in ipairs({ call.keys.outbox(), call.keys.outbox_aside(partition) }) do
    local first = redis.call('LINDEX', list, 0)
    if first and outboxes.number_of(first) <= ended then return true end
  end
  return false
end

-- Returns, for each partition, the size (bytes) of the outbox entries that were set aside because it did not apply them
-- in time. Leaves out partitions without such entries.
local function bytes_aside(call)
  local flat, aside = redis.call('HGETALL', call.keys.outboxes_bytes()), {}
  for i = 1, #flat, 2 do aside[flat[i]] = tonumber(flat[i + 1]) end
  return aside
end

-- Returns true if `max_bytes` or more may wait for one of the partitions that `marks` names. Entries for a partition
-- wait in the lists `outbox:{partition}` and `outbox`. All bytes of `outbox` are counted for each partition, although
-- some of its entries are for other partitions.
function outboxes.are_full(call, outgoing, marks, max_bytes)
  local bytes = sent_of(call, outgoing).bytes
  outgoing.aside = outgoing.aside or bytes_aside(call)
  for _, mark in ipairs(marks) do
    if bytes + (outgoing.aside[mark.partition] or 0) >= max_bytes then return true end
  end
  return false
end

-- Returns, for each partition in `late`, those of the entries that it must apply.
local function entries_by_partition(entries, late)
  local lists = {}
  for _, partition in ipairs(late) do lists[partition] = {} end
  for _, entry in ipairs(entries) do
    local partitions = entry:sub(NUMBER_LENGTH + 1, entry:find(':', NUMBER_LENGTH + 1, true) - 1)
    for partition in partitions:gmatch('%d+') do
      local list = lists[partition]
      if list then list[#list + 1] = entry end
    end
  end
  return lists
end

-- Sets outbox entries aside for the partitions in `late`, which did not apply them in time: appends each entry to the
-- list of each late partition that must apply it. Schedules the jobs that send these lists.
function outboxes.set_aside(call, entries, late)
  local keys = call.keys
  for partition, list in pairs(entries_by_partition(entries, late)) do
    if #list > 0 then
      local bytes, job = 0, job_for(partition)
      for _, entry in ipairs(list) do bytes = bytes + #entry end
      many.command('RPUSH', keys.outbox_aside(partition), list)
      redis.call('HINCRBY', keys.outboxes_bytes(), partition, bytes)
      if redis.call('SADD', keys.jobs_index('aux'), job) == 1 then
        jobs.make_scheduled(call, 'aux', job, call.now_ms + ASK_AGAIN_MS)
      end
    end
  end
end

return outboxes
