#!lua
--[[
apply_outbox: apply the outbox entries that other partitions have for this one. The entries of each partition are
applied in their order.

Each of `sources` is another partition: its number (`source`) and entries of its outbox. Entries up to the number that
was applied last are ignored. So each entry is applied once, even if several processes send it, or a process sends it
again. When the call has stored its maximum of copies (a copy is an event for one subscriber), it leaves the other
entries. The caller sends these again.

New batches get the time of the earliest entry that is applied now, which is when its events were accepted. So
deadlines, ages and the waiting times of joins count from that time, however long the entry was under way. If a join's
open batch was opened after that time, it is closed first.

`applied` has the number of the last entry that this partition has applied, for each source. `published` has each topic
that got events (storing.lua): foreign ones and, if joins of other partitions publish to them, topics that live here.
`refused` has the topics to which such a join may not publish any more, with the reason; the join's events for these
topics are dropped.

If this partition has lost its data, as after a restart with an empty disk, nothing is applied, and `is_lost` is true.
Otherwise the entries would reach nobody, although a backup may bring the subscribers back.

If something could not be stored, because another program has written a key, `failure` is the error as text. What it
concerns counts as applied all the same: it must not hold up the entries behind it.

`may_be_unused` has topics of other partitions that seem to have no subscriber in this partition. The caller counts
their subscribers here again, and corrects the marks of these topics: the notes in the other partitions that this
partition has subscribers (elsewhere.lua).
]]
local calls = include('store/calls')
local copies = include('publishing/copies')
local intake = include('publishing/intake')
local outboxes = include('publishing/outboxes')
local storing = include('publishing/storing')
local topics = include('subscribing/topics')

local function add(call, state, topic, events)
  local bytes = intake.add(call, state.intake_state, topic, events)
  state.copies = state.copies + copies.of(#events, bytes, #topic.subscribers)
end

-- Stores events for the subscribers in this partition. The topic's home, another partition, has accepted the events.
local function take_events(call, state, name, events)
  local topic = intake.foreign_topic(state.intake_state, name)
  add(call, state, topic, events)
  if #topic.subscribers == 0 then state.may_be_unused[name] = true end
end

local function end_subscriptions(call, state, name)
  intake.end_run(state.intake_state)
  topics.end_subscriptions(call, name)
  state.intake_state.topics[name] = nil
  state.may_be_unused[name] = true
end

-- Publishes the events of a join to a topic of this partition. The join itself is in another partition.
local function publish(call, state, name, about)
  local client, _, events = unpack(about)
  local publication = { topic = name, client = client }
  local reason = intake.judge(call, state.intake_state, publication)
  if reason then
    state.refused[#state.refused + 1] = { topic = name, reason = reason, events = #events }
    return
  end
  add(call, state, intake.accept(call, state.intake_state, publication), events)
end

local DO = { events = take_events, ['end'] = end_subscriptions, publish = publish }

-- `added_us` is the time at which another partition accepted the events of an outbox entry. Deadlines and ages must
-- count from that time. A script call has one time of acceptance for all its events. This time becomes `added_us`,
-- unless it is earlier already.
local function go_back_to(call, added_us)
  call.accepted_us = math.min(call.accepted_us, added_us)
  call.accepted_ms = math.floor(call.accepted_us / 1000)
end

local function names_in(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  return names
end

-- Applies outbox entries of another partition. Skips those up to the number `last`, because they were applied before.
-- Stops when the script call has made its maximum of copies. If another program has written the key of a topic's
-- subscribers, or of a topic, an entry for this topic counts as applied: it must not stop the entries behind it.
-- Returns the number of the last applied entry, or `last` if none was applied.
local function apply(call, state, entries, last)
  for _, entry in ipairs(entries) do
    if state.copies >= copies.MAX.outbox then break end
    local number = outboxes.number_of(entry)
    if number > last then
      local kind, topic, about, added_us = outboxes.work_of(entry)
      go_back_to(call, added_us or number)
      calls.throw_wrong_type_later(call, DO[kind], state, topic, about)
      last = number
    end
  end
  return last
end

return function(call, args)
  if redis.call('EXISTS', call.keys.schema()) == 0 then
    return { is_lost = true, applied = {}, published = {}, refused = {}, may_be_unused = {} }
  end
  local key, applied, fields, values, last = call.keys.outboxes_applied(), {}, {}, {}, {}
  local state = { intake_state = intake.begin(args), may_be_unused = {}, refused = {}, copies = 0 }
  for i, from in ipairs(args.sources) do fields[i] = from.source end
  local before = redis.call('HMGET', key, unpack(fields))
  for i, from in ipairs(args.sources) do
    -- If `flush` and `empty` (src/publishing/outbox.ts) run at the same time, one script call may get the same entries
    -- twice. `last` makes `apply` ignore them the second time.
    local newest = apply(call, state, from.entries, last[from.source] or tonumber(before[i]) or 0)
    last[from.source], applied[i] = newest, newest
    values[2 * i - 1], values[2 * i] = from.source, string.format('%d', newest)
  end
  storing.store(call, args.uid_seed, state.intake_state)
  redis.call('HSET', key, unpack(values))
  local failure = calls.take_failure(call)
  return {
    is_lost = false, applied = applied, published = storing.published(state.intake_state), refused = state.refused,
    may_be_unused = names_in(state.may_be_unused), failure = failure,
  }
end
