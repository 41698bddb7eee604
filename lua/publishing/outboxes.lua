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

The number of an entry is the time (µs) of the script call that adds it, or one more than the last number if that is
higher. The other partition ignores all numbers up to the last one that it has applied, so an entry may be sent again.
But a failover can lose entries that were applied, and the clock of the new master may be behind: new entries with lower
numbers than the lost ones would be ignored. So if another Redis (redis_run.lua) has taken over, or the clock was set
back, the numbers jump ahead by JUMP_US, and stay `ahead` of the clock. Entries then have the time at which they were
added as the fourth item of their list.
]]
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')
local many = include('store/many')
local redis_run = include('store/redis_run')
local outboxes = {}

local NUMBER_LENGTH = 16
-- The time after which a partition that has not applied the entries set aside for it is sent them again.
local ASK_AGAIN_MS = 1000
-- While many entries are added, their numbers run ahead of the clock, but by at most this much. If they are further
-- ahead, the clock was set back.
local MAX_AHEAD_US = 100 * 1000
-- By how much numbers jump. They are then higher than lost ones, if the clocks of the two Redises differ by less.
local JUMP_US = 60 * 1000 * 1000

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

-- Creates an empty collection of the work that one script call has for other partitions.
function outboxes.begin()
  return { work = {} }
end

-- Reads the state of the outbox, once in a script call:
--   last   the number of the last entry
--   run    the `run_id` of the Redis in which an entry was last added, or workers were last scrubbed
--   bytes  the size (bytes) of all entries together
--   ahead  how far (µs) numbers are ahead of Redis's clock: 0 until another Redis takes over or the clock is set back
local function read_state(call, outgoing)
  if outgoing.last then return end
  local sent = call.keys.outboxes_sent()
  local last, run, bytes, ahead = unpack(redis.call('HMGET', sent, 'last', 'run', 'bytes', 'ahead'))
  outgoing.last, outgoing.run = tonumber(last) or 0, run
  outgoing.bytes, outgoing.ahead = tonumber(bytes) or 0, tonumber(ahead) or 0
end

-- Adds an entry to the collection `outgoing`, which `store` writes. `partitions` has the numbers of the partitions that
-- must apply the entry, separated by commas. `kind` is the kind of work, and `about` its data.
function outboxes.add(outgoing, partitions, kind, topic, about)
  outgoing.work[#outgoing.work + 1] = { partitions, { kind, topic, about } }
end

-- Returns the number after which the numbers of new entries begin. If they must jump, stores how far they are ahead of
-- the clock from now on. The numbers of a new outbox do not jump.
local function last_number(call, outgoing)
  local run, before_us = redis_run.id() or '', call.now_us - 1
  local number = math.max(outgoing.last, before_us + outgoing.ahead)
  local was_set_back = number - before_us - outgoing.ahead > MAX_AHEAD_US
  if run == outgoing.run and not was_set_back then return number end
  if outgoing.last > 0 or outgoing.run then number = number + JUMP_US end
  outgoing.ahead = number - before_us
  redis.call('HSET', call.keys.outboxes_sent(), 'run', run, 'ahead', string.format('%d', outgoing.ahead))
  return number
end

-- Makes the numbers jump if another Redis has taken over since the last check, and stores its `run_id`. The script
-- `scrub` calls this, so usually the replicas have got the `run_id` before this Redis adds its first entry. The very
-- first Redis stores its `run_id` too, although it has no entries: otherwise the Redis that takes over from it could
-- not notice the takeover.
--
-- Example: the Redis B takes over from A, which becomes B's replica. B adds an entry, and fails before A has got it. A
-- takes over again, finds B's `run_id`, and makes the numbers jump. Otherwise A's next entries could have lower numbers
-- than B's, which another partition may have applied.
function outboxes.notice_other_redis(call)
  local outgoing = outboxes.begin()
  read_state(call, outgoing)
  last_number(call, outgoing)
end

-- Makes the numbers of new entries higher than `number`, even if this Redis has lost its own last number. Returns false
-- if they were higher anyway.
function outboxes.continue_above(call, number)
  local sent = call.keys.outboxes_sent()
  if (tonumber(redis.call('HGET', sent, 'last') or nil) or 0) >= number then return false end
  redis.call('HSET', sent, 'last', string.format('%d', number))
  return true
end

-- Appends the collected work of a script call to the outbox, and queues the job that sends it. An error while the job
-- is queued does not end the script here, because a caller that repeated the script would append the entries again. The
-- error is kept in `call.failure`, and a sweep queues the job later.
function outboxes.store(call, outgoing)
  if #outgoing.work == 0 then return end
  read_state(call, outgoing)
  local keys, entries = call.keys, {}
  local number, bytes = last_number(call, outgoing), outgoing.bytes
  for i, piece in ipairs(outgoing.work) do
    number = number + 1
    if outgoing.ahead > 0 then piece[2][4] = call.now_us end
    entries[i] = string.format('%016d%s:', number, piece[1]) .. cmsgpack.pack(piece[2])
    bytes = bytes + #entries[i]
  end
  many.command('RPUSH', keys.outbox(), entries)
  redis.call('HSET', keys.outboxes_sent(), 'last', string.format('%d', number), 'bytes', string.format('%d', bytes))
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
  read_state(call, outgoing)
  outgoing.aside = outgoing.aside or bytes_aside(call)
  for _, mark in ipairs(marks) do
    if outgoing.bytes + (outgoing.aside[mark.partition] or 0) >= max_bytes then return true end
  end
  return false
end

-- Sets outbox entries aside for the partitions in `late`, which did not apply them in time: appends each entry to the
-- list of each late partition that must apply it. Schedules the jobs that send these lists.
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
