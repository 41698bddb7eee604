--[[
Outboxes: what happened in this partition and has to be done in others.

The list `outbox:{partition}` has the entries for one other partition, in the order in which they are to be applied
there. A call adds one entry at most for each partition. An entry begins with its number, in 16 digits; a list in
MessagePack follows, of three items for each piece of work:

- `events`, a topic and its events: give them to the subscribers of the topic there;
- `end`, a topic and false: the topic was removed, so end its subscriptions there;
- `publish`, a topic and `{ client, join, events }`: the topic lives there, and the join of this partition publishes to
  it.

The number is the time (µs) of the call, and above that of the entry before. The other partition ignores numbers that it
has seen, so entries may be applied again. A partition that lost its last writes in a failover goes on with higher numbers
too, since time has gone on.
]]
local jobs = include('jobs')
local outboxes = {}

local NUMBER_LENGTH = 16

-- Returns the number of an entry.
function outboxes.number_of(entry)
  return tonumber(entry:sub(1, NUMBER_LENGTH))
end

-- Returns the work of an entry: a list with three items for each piece.
function outboxes.work_of(entry)
  return cmsgpack.unpack(entry:sub(NUMBER_LENGTH + 1))
end

-- Returns the packed job that empties the outbox for a partition.
function outboxes.job_for(partition)
  return cmsgpack.pack({ 'outbox', { tonumber(partition) } })
end

-- Adds a piece of work to what a call has for a partition.
function outboxes.add(outgoing, partition, kind, topic, about)
  local work = outgoing[partition] or {}
  outgoing[partition] = work
  work[#work + 1], work[#work + 2], work[#work + 3] = kind, topic, about
end

-- Returns the events of a slice as a list of their own.
function outboxes.events_of(slice)
  local events = {}
  for i = slice.first, slice.last do events[#events + 1] = slice.list[i] end
  return events
end

-- Appends what a call has to the outboxes, and puts their jobs.
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

-- True if one of the outboxes that events of a topic go to has `max_bytes` or more.
function outboxes.are_full(call, marks, max_bytes)
  for _, mark in ipairs(marks) do
    local bytes = tonumber(redis.call('HGET', call.keys.outboxes_bytes(), mark.partition)) or 0
    if bytes >= max_bytes then return true end
  end
  return false
end

return outboxes
