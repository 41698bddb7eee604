--[[
Outboxes: the work that other partitions must do for this partition.

The list `outbox` has the entries for all other partitions, in the order in which the partitions must apply them. An
entry is its number in 16 digits, the numbers of the partitions that must apply it, a colon, and a list in MessagePack,
such as `17954000000000003,5:` and `{ kind, topic, about }`:

- `events`, a topic and its events: give the events to the topic's subscribers in the other partition;
- `end`, a topic and false: the topic was removed, so end its subscriptions in the other partition;
- `publish`, a topic and `{ client, join, events }`: the topic lives in the other partition, and a join of this
  partition publishes the events to it.

If a partition does not apply its entries in time, they are set aside for that partition in the list
`outbox:{partition}`, so that the other partitions need not wait. Until that list is empty, further entries for the
partition are also set aside, which keeps them in order.

The number of an entry is the time (µs) of the script call that adds it, or one more than the last number if that is
higher. The other partition ignores numbers that it has applied, so an entry may be sent again. If a failover loses the
last writes of a partition, the next numbers are still higher than the lost ones, because numbers follow the clock.

This rule is not enough if, after the failover, the clock of the new master is behind the last number that it has. The
other partition may have applied lost entries with the next numbers, and would ignore the new entries. So the first new
number is a minute after the last one, and later numbers also stay later than the clock shows (by `ahead`). The same
happens after a clock was set back.
]]
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')
local many = include('store/many')
local outboxes = {}

local NUMBER_LENGTH = 16
-- If a partition does not apply outbox entries in time, a worker sends them to it again after this time.
local ASK_AGAIN_MS = 1000
-- The number of an outbox entry is the time (µs) at which the entry was added. Entries that are added at once get
-- consecutive numbers, so the last number can be a little later than Redis's clock. If it is later by more than this,
-- the clock was set back, or the last entry was added by another machine before a failover.
local MAX_AHEAD_US = 100 * 1000
-- After the clock was set back, the next outbox entry gets a number (a time in µs) that is this much higher than the
-- last number that Redis knows. So no number is used twice, even if a failover has lost the last entries, because a
-- failover loses less than a minute of writes.
local JUMP_US = 60 * 1000 * 1000

-- Returns the number of an outbox entry: its first 16 digits.
function outboxes.number_of(entry)
  return tonumber(entry:sub(1, NUMBER_LENGTH))
end

-- Reads the work that an outbox entry describes. Returns the kind of work, the topic, and the data that this kind of
-- work needs.
function outboxes.work_of(entry)
  return unpack(cmsgpack.unpack(entry:sub(entry:find(':', NUMBER_LENGTH + 1, true) + 1)))
end

-- Returns the job that sends the entries of the list `outbox`, packed as in the queue. With `partition`, returns the
-- job that sends the entries of the list `outbox:{partition}`.
local function job_for(partition)
  return cmsgpack.pack({ 'outbox', { tonumber(partition) } })
end

-- Deletes the job that sends the entries of the list `outbox` or, with `partition`, of `outbox:{partition}`. This list
-- must be empty. Returns false if the worker does not hold the job.
function outboxes.end_job(call, partition, worker, lease, lease_ms)
  local job = job_for(partition)
  if not leases.take_job_and_lease(call, 'aux', worker, job, lease, lease_ms) then return false end
  redis.call('SREM', call.keys.jobs_index('aux'), job)
  return true
end

-- Creates an empty collection for the work that one script call has for other partitions.
function outboxes.begin()
  return { work = {} }
end

-- Reads three values, once in a script call: the number of the last entry that was added to the outbox (a time in µs),
-- the bytes of all entries in the outbox, and `ahead`. `ahead` says by how many µs the numbers of new entries must be
-- later than Redis's clock; it is 0 unless the clock was ever set back.
local function read_state(call, outgoing)
  if outgoing.last then return end
  local last, bytes, ahead = unpack(redis.call('HMGET', call.keys.outboxes_sent(), 'last', 'bytes', 'ahead'))
  outgoing.last, outgoing.bytes, outgoing.ahead = tonumber(last) or 0, tonumber(bytes) or 0, tonumber(ahead) or 0
end

-- Adds a piece of work to the collection. `partitions` is a text with the numbers of the partitions that must do the
-- work, separated by commas.
function outboxes.add(outgoing, partitions, kind, topic, about)
  outgoing.work[#outgoing.work + 1] = { partitions, { kind, topic, about } }
end

-- Returns a list with the events of a slice (a part of a longer list).
function outboxes.events_of(slice)
  local events = {}
  for i = slice.first, slice.last do events[#events + 1] = slice.list[i] end
  return events
end

-- Returns the number after which the numbers of the new entries begin. Numbers are times (µs). If the clock was set
-- back, the new numbers and all further ones are later than the clock, and the field `ahead` stores by how much.
local function last_number(call, outgoing)
  local time = call.now_us - 1 + outgoing.ahead
  if outgoing.last - time <= MAX_AHEAD_US then return math.max(outgoing.last, time) end
  local number = outgoing.last + JUMP_US
  redis.call('HSET', call.keys.outboxes_sent(), 'ahead', string.format('%d', outgoing.ahead + number - time))
  return number
end

-- Appends the collected work of a script call to the outbox, and queues the job that empties the outbox. If the job
-- cannot be queued, the error is kept in `call.failure`, and a sweep queues the job later. The error must not end the
-- script here, because a caller that repeats the script would append the entries again.
function outboxes.store(call, outgoing)
  if #outgoing.work == 0 then return end
  read_state(call, outgoing)
  local keys, entries = call.keys, {}
  local number, bytes = last_number(call, outgoing), outgoing.bytes
  for i, piece in ipairs(outgoing.work) do
    number = number + 1
    entries[i] = string.format('%016d%s:', number, piece[1]) .. cmsgpack.pack(piece[2])
    bytes = bytes + #entries[i]
  end
  many.command('RPUSH', keys.outbox(), entries)
  redis.call('HSET', keys.outboxes_sent(), 'last', string.format('%d', number), 'bytes', string.format('%d', bytes))
  calls.try(call, jobs.put, 'aux', job_for())
end

-- Stores the number of the last outbox entry, which must be an `end` entry: one that ends all subscriptions to a topic.
-- `may_end_subscriptions` uses the number to find out whether such entries still wait.
function outboxes.note_end(call)
  local sent = call.keys.outboxes_sent()
  redis.call('HSET', sent, 'ended', redis.call('HGET', sent, 'last'))
end

-- An outbox entry of the kind `end` ends the subscriptions to a topic in another partition. Returns true if the
-- partition `partition` may not have applied all `end` entries yet. They would also end a subscription that is made
-- there now.
function outboxes.may_end_subscriptions(call, partition)
  local ended = tonumber(redis.call('HGET', call.keys.outboxes_sent(), 'ended') or nil)
  for _, list in ipairs(ended and { call.keys.outbox(), call.keys.outbox_aside(partition) } or {}) do
    local first = redis.call('LINDEX', list, 0)
    if first and outboxes.number_of(first) <= ended then return true end
  end
  return false
end

-- Returns, for each partition, the bytes of the outbox entries that are set aside for it because it did not apply them
-- in time. Leaves out partitions without such entries.
local function bytes_aside(call)
  local flat, aside = redis.call('HGETALL', call.keys.outboxes_bytes()), {}
  for i = 1, #flat, 2 do aside[flat[i]] = tonumber(flat[i + 1]) end
  return aside
end

-- Returns true if too many bytes may wait for one of the partitions in `marks`: `max_bytes` or more. Adds up all
-- entries of the list `outbox`, although some may be for other partitions, and the bytes of the list
-- `outbox:{partition}`.
function outboxes.are_full(call, outgoing, marks, max_bytes)
  read_state(call, outgoing)
  outgoing.aside = outgoing.aside or bytes_aside(call)
  for _, mark in ipairs(marks) do
    if outgoing.bytes + (outgoing.aside[mark.partition] or 0) >= max_bytes then return true end
  end
  return false
end

-- Sets outbox entries aside for the partitions in `late`, which did not apply them in time: appends each entry to the
-- lists of those partitions that must apply it. Schedules the jobs that send these lists, unless the jobs are queued
-- already.
function outboxes.set_aside(call, entries, late)
  local keys, lists = call.keys, {}
  for _, partition in ipairs(late) do lists[partition] = {} end
  for _, entry in ipairs(entries) do
    local partitions = entry:sub(NUMBER_LENGTH + 1, entry:find(':', NUMBER_LENGTH + 1, true) - 1)
    for partition in partitions:gmatch('%d+') do
      local list = lists[partition]
      if list then list[#list + 1] = entry end
    end
  end
  for partition, list in pairs(lists) do
    local bytes, job = 0, job_for(partition)
    for _, entry in ipairs(list) do bytes = bytes + #entry end
    many.command('RPUSH', keys.outbox_aside(partition), list)
    if bytes > 0 then redis.call('HINCRBY', keys.outboxes_bytes(), partition, bytes) end
    if bytes > 0 and redis.call('SADD', keys.jobs_index('aux'), job) == 1 then
      jobs.make_scheduled(call, 'aux', job, call.now_ms + ASK_AGAIN_MS)
    end
  end
end

return outboxes
