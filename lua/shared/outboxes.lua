--[[
Outboxes: lists of the work that this partition has for other partitions.

The list `outbox:{partition}` has the entries for one other partition, in the order in which that partition must apply
them. A call adds at most one entry for each partition. An entry begins with its number, in 16 digits. A list in
MessagePack follows, with three items for each piece of work:

- `events`, a topic and its events: give the events to the topic's subscribers in the other partition;
- `end`, a topic and false: the topic was removed, so end its subscriptions in the other partition;
- `publish`, a topic and `{ client, join, events }`: the topic lives in the other partition, and a join of this
  partition publishes the events to it.

The number of an entry is the time (µs) of the call, or one more than the last number if that is higher. The other
partition ignores numbers that it has applied, so an entry may be sent again. Even if a failover loses the last writes
of a partition, its next numbers are higher, because they follow the clock.
]]
local jobs = include('jobs')
local outboxes = {}

local NUMBER_LENGTH = 16

-- Returns the number of an outbox entry, with which the entry begins.
function outboxes.number_of(entry)
  return tonumber(entry:sub(1, NUMBER_LENGTH))
end

-- Returns the work that an outbox entry describes: a list with three items for each piece of work.
function outboxes.work_of(entry)
  return cmsgpack.unpack(entry:sub(NUMBER_LENGTH + 1))
end

-- Returns the packed job that moves the entries of the outbox for a partition to that partition.
function outboxes.job_for(partition)
  return cmsgpack.pack({ 'outbox', { tonumber(partition) } })
end

-- Adds a piece of work for another partition to `outgoing`, which collects the work of one script call by partition.
function outboxes.add(outgoing, partition, kind, topic, about)
  local work = outgoing[partition] or {}
  outgoing[partition] = work
  work[#work + 1], work[#work + 2], work[#work + 3] = kind, topic, about
end

-- Returns a list with the events of a slice, which itself is only a part of a longer list.
function outboxes.events_of(slice)
  local events = {}
  for i = slice.first, slice.last do events[#events + 1] = slice.list[i] end
  return events
end

-- Appends the collected work of a script call to the outboxes, one for each other partition. Queues the jobs that
-- move the entries there.
function outboxes.store(call, outgoing)
  local keys = call.keys
  for partition, work in pairs(outgoing) do
    local last = tonumber(redis.call('HGET', keys.outboxes_sent(), partition)) or 0
    local number = math.max(last + 1, call.now_us)
    local entry = string.format('%016d', number) .. cmsgpack.pack(work)
    redis.call('RPUSH', keys.outbox(partition), entry)
    redis.call('HSET', keys.outboxes_sent(), partition, string.format('%d', number))
    redis.call('HINCRBY', keys.outboxes_bytes(), partition, #entry)
    local job = outboxes.job_for(partition)
    if redis.call('SADD', keys.jobs_index('aux'), job) == 1 then jobs.make_instant(call, 'aux', job) end
  end
end

-- True if `max_bytes` or more wait in the outbox to one of the partitions that have subscribers of a topic. `marks`
-- names these partitions.
function outboxes.are_full(call, marks, max_bytes)
  for _, mark in ipairs(marks) do
    local bytes = tonumber(redis.call('HGET', call.keys.outboxes_bytes(), mark.partition)) or 0
    if bytes >= max_bytes then return true end
  end
  return false
end

return outboxes
