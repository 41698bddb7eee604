#!lua
--[[
join_events: count the first events of a batch for their join, and publish an event for each join key that is now
complete.

The counted events leave the batch in the same step. When the last one has left, the job ends, as by an accepted
delivery. So each event is counted once, even if a process dies. The worker must hold the job under its lease, and the
rules of the join must be those that the caller knows (`version`, the time at which the join was put last).

`record` is what the delivery log keeps of the batch when all of its events are counted.

`removed` is how many of the given events have left the batch. It is less than all if the call has published its maximum
of copies (a copy is an event for one subscriber). It is 0 if the call reached the maximum before it counted the first
event. This can happen if it had to publish events about join keys that it closed early, or that a change of the join's
rules had made complete. The caller then calls again with the events that are left in the batch. `batch_events` is the
number of events in the batch before the call: if all of them are removed, the job is done.

Before an event is counted for a join key, the join key expires if the event's batch was opened `within_ms` or more
after the join key. If the join has `max_keys` open join keys, or these take more than its part of `max_bytes` (the
joins of a client have equal parts), the oldest expire early. Events without a join key, and events of topics that are
no longer sources, leave the batch without being counted.

If the outcome is not `counted`, nothing has changed. `not_held` means that the worker does not hold the job, or that
the batch has another number of events, because the same call was made before. `changed`: the join has other rules, or
is gone. `refused`: the join may not publish to its topic; `reason` says why. `outbox_full`: one of its topics takes no
events now, because an outbox is full (outboxes.lua), so the batch must wait. `expiry_refusal` is the reason if the
events about expired join keys could not be published.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local finishing = include('delivering/finishing')
local join_work = include('flow/joins/join_work')
local key_records = include('flow/joins/key_records')
local leases = include('delivering/leases')
local open_keys = include('flow/joins/open_keys')

-- Maximum number of open join keys that `make_room` closes in one script call.
local MAX_EVICTED = 100

local function outcome(word, reason)
  local none = { completed = 0, expired = 0, evicted = 0, unkeyed = 0, published = {} }
  none.outcome, none.reason, none.removed, none.is_done = word, reason, 0, false
  return none
end

-- Closes the oldest open join keys if the join has more than `max_keys`, or if its keys take more than its part of
-- `max_bytes`. All joins of a client have equal parts of `max_bytes`.
local function make_room(call, work, args)
  local open = work.open
  local max_bytes = args.max_bytes / math.max(1, redis.call('SCARD', call.keys.joins_of(args.client)))
  local bytes = open_keys.bytes(open)
  local excess = math.ceil(open.size * math.max(0, 1 - max_bytes / math.max(1, bytes)))
  excess = math.min(MAX_EVICTED, math.max(excess, open.size - args.max_keys))
  if excess <= 0 then return end
  for _, key in ipairs(open_keys.oldest(open, excess)) do
    join_work.expire(work, key, true)
    if join_work.is_full(work) then return end
  end
end

-- Publishes an event for a join key that has enough events of each source topic, and removes these events from the key.
-- Repeats this while enough are left, as may happen after a change of the join's rules. Returns false if the script
-- call reached its maximum of copies (events for one subscriber) before the end.
local function complete(call, work, args, key)
  local record = open_keys.read(work.open, key)
  while record and key_records.is_complete(record, args.sources) do
    if join_work.is_full(work) then return false end
    join_work.complete(call, work, key, record)
    record = open_keys.read(work.open, key)
  end
  return true
end

-- Counts one event for its join key:
--   1. If the key has expired, closes it (join_work.expire). Otherwise, if a change of the join's rules has made the
--      key complete, publishes the join's event about it.
--   2. Counts `event`. If this opens the key, and the join has `max_keys` open keys already, first closes the oldest of
--      these (join_work.expire).
--   3. If the key is complete now, publishes the join's event about it.
-- Returns false if the script call reached its maximum of copies (events for one subscriber) in step 1, so that `event`
-- is not counted.
local function count(call, work, args, event)
  local open, key = work.open, event.key
  local record = open_keys.read(open, key)
  if record and record.since_ms + args.within_ms <= args.created_ms then
    join_work.expire(work, key)
  elseif not complete(call, work, args, key) then
    return false
  end
  record = open_keys.read(open, key)
  if not record and open.size >= args.max_keys then
    join_work.expire(work, open_keys.oldest(open, 1)[1], true)
  end
  record = record or open_keys.open(call, open, key)
  open_keys.count(open, key, record, event)
  if key_records.is_complete(record, args.sources) then join_work.complete(call, work, key, record) end
  return true
end

-- Counts events for their join keys, until none is left or the script call has published its maximum of copies (events
-- for one subscriber). Returns how many events were handled, and how many of these had no join key.
local function count_all(call, work, args)
  local unkeyed = 0
  for i, event in ipairs(args.events) do
    if join_work.is_full(work) then return i - 1, unkeyed end
    if work.open.counts[event.topic] then
      if not event.key then
        unkeyed = unkeyed + 1
      elseif not count(call, work, args, event) then
        return i - 1, unkeyed
      end
    end
  end
  return #args.events, unkeyed
end

local function read_keys(work, args)
  local keys, known = {}, {}
  for _, event in ipairs(args.events) do
    if event.key and not known[event.key] then
      keys[#keys + 1] = event.key
      known[event.key] = true
    end
  end
  open_keys.read_all(work.open, keys)
end

-- Removes the first `removed` of the `args.batch_events` events of a batch. If no event is left, ends the worker's job,
-- which is to count this batch, and returns true.
local function remove_from_batch(call, args, removed)
  if removed < args.batch_events then
    batches.drop_first(call, args.bid, args.token, removed)
    redis.call('HINCRBY', call.keys.subscriber(args.token), 'sent', removed)
    return false
  end
  local finished = {
    worker = args.worker, job = args.job, lease = args.lease, bid = args.bid, heal = 0, took_ms = 0,
    record = args.record,
  }
  finishing.finish_all(call, args, { finished })
  return true
end

-- Returns true if the worker holds the job, and the batch still has `args.batch_events` events. It has fewer if the
-- same call was made before, and its reply was lost.
local function holds(call, args)
  if not leases.holds(call, args) then return false end
  return redis.call('LLEN', call.keys.batch(args.bid)) == args.batch_events + batches.HEADER
end

return function(call, args)
  if not holds(call, args) then return outcome('not_held') end
  local subscriber = call.keys.subscriber(args.token)
  if redis.call('HGET', subscriber, 'subscribed_at') ~= args.version then return outcome('changed') end
  local work = join_work.begin(call, args)
  if join_work.must_wait(work.complete_outlet) then return outcome('outbox_full') end
  if work.complete_outlet.refusal then return outcome('refused', work.complete_outlet.refusal) end
  if join_work.must_wait(work.expiry_outlet) then return outcome('outbox_full') end
  -- `make_room` closes join keys, but their records stay in Redis until the end of the call. So the records are read
  -- first: after `make_room`, the closed keys would seem open.
  read_keys(work, args)
  make_room(call, work, args)
  local removed, unkeyed = count_all(call, work, args)
  local published = join_work.store(call, work)
  if unkeyed > 0 then redis.call('HINCRBY', subscriber, 'unkeyed', unkeyed) end
  -- An error in `schedule` is kept until the end of the script (`throw_later`). If it ended the script here, the events
  -- that are counted already would stay in the batch, and be counted again.
  calls.throw_later(call, open_keys.schedule, args.token, args.within_ms)
  return {
    outcome = 'counted', removed = removed, is_done = remove_from_batch(call, args, removed), published = published,
    completed = work.completed, expired = work.expired, evicted = work.evicted, unkeyed = unkeyed,
    expiry_refusal = work.expired > 0 and work.expiry_outlet and work.expiry_outlet.refusal or nil,
  }
end
