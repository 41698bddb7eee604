#!lua
--[[
fire_triggers: publish the events of triggers that are due, and store when each trigger is due next.

A firing is what the caller wants done with the due times of one trigger. It names the definition that it was
computed from (`revision`) and the time at which the trigger was due (`due_at`). If the trigger has another
definition or another due time by now, or is paused, the firing changes nothing and its outcome is `changed`. So
each due time is handled only once, however many processes fire triggers.

`times` are the due times that fire, in this order. Each publishes an event whose `id` is the name of the trigger, `@`
and the due time, and whose `t` is the due time. `missed` is the number of due times that do not fire. `next_at` is the
next due time, missing if there is none. If the caller could not compute a firing, the firing has an `error`: the error
is stored, and the trigger is due again after a second, when another process may be able to compute it.

The client claims the topic as by publish.lua. If it cannot claim the topic, or its rate permits nothing (rates.lua:
`rate_limited`), all of `times` are missed, and the outcome says why. Rates are kept in the control partition. In any
other partition, the caller passes rates of 0, and in `waiting` the clients whose rate is used up. Afterwards the caller
charges in the control partition what each client has `spent`.

A call does a bounded amount of work. When that is used up, the first of `times` that has not fired is stored as the
next due time, and firings that were not begun have the outcome `left`. If storing fails for a subscriber, for example
because of a key of the wrong type, the due times still count as fired: otherwise the other subscribers would get their
events again and again. If a key that a firing reads, for example the rate of its client, has the wrong type, the other
triggers fire all the same. The trigger of this firing is removed from `triggers:due`, and a sweep enters it again. If
it stayed there, each call would fail, and the scheduler waits after a call that failed.

In the reply, `now_ms` is Redis's time. `fired` is how many of `times` fired. `published` has each topic that got
events, with their number and bytes, and the subscribers of the topic (storing.lua).
]]
local agenda = include('flow/agenda')
local calls = include('store/calls')
local copies = include('publishing/copies')
local intake = include('publishing/intake')
local rates = include('publishing/rates')
local storing = include('publishing/storing')
local triggers = include('flow/triggers/triggers')

-- Maximum work of one script call, in units of about 20 µs of Redis. Each trigger takes one unit, and each event that
-- it publishes takes at least one more; a long event, or one with many subscribers, takes several. The work for the
-- subscribers of the last trigger's topic may exceed the maximum.
local MAX_WORK = 200
local COPIES_PER_UNIT = copies.MAX.triggers / MAX_WORK
-- Work for each subscriber of a topic, because a batch may have to be opened for the subscriber: 0.8 of the units of
-- MAX_WORK, or 16 µs. It is counted for the first trigger of the topic in a script call, and not for further ones.
local WORK_OF_SUBSCRIBER = 0.8

-- Maps the reason why a trigger could not publish to the error that the API shows for the trigger.
local ERRORS = {
  claimed_by_other = 'topic_claimed', no_room = 'limit_reached', owns_too_many = 'limit_reached',
  rate_limited = 'rate_limited',
}

local LEFT = { outcome = 'left', fired = 0 }

-- Reads the trigger that `firing` names. Returns its definition, and a table with its stored `fired`, `missed` and
-- `error`. Returns nil if the trigger is paused, or if its definition or due time has changed since the caller read it.
local function read(call, firing)
  local keys, client, name = call.keys, firing.client, firing.name
  local definition = redis.call('HGET', keys.triggers_of(client), name)
  local trigger = definition and triggers.read(definition)
  if not trigger or trigger.revision ~= firing.revision then return nil end
  local state = redis.call('HMGET', keys.trigger(client, name), 'next_at', 'paused', 'fired', 'missed', 'error')
  if state[1] ~= firing.due_at or state[2] then return nil end
  return trigger, { fired = state[3] or 0, missed = state[4] or 0, error = state[5] }
end

local function texts_of(trigger, name, times, count)
  local texts = {}
  for i = 1, count do
    local time = times[i]
    texts[i] = table.concat({ '{"id":"', name, '@', time, trigger.head, time, trigger.tail })
  end
  return texts
end

-- Returns the work of publishing one event of a trigger, in the units of MAX_WORK.
local function work_of(trigger, subscribers)
  return math.max(1, copies.of(1, #trigger.head + #trigger.tail, math.max(1, subscribers)) / COPIES_PER_UNIT)
end

-- Publishes events of a trigger, one for each of the times in `firing`, the earliest first. Stops at the maximum work
-- of the script call, but publishes at least one event: an event with very many subscribers exceeds the maximum alone,
-- and would otherwise never be published. Returns the number of published events.
local function publish(call, progress, firing, trigger, publication)
  local topic = intake.accept(call, progress.intake_state, publication)
  local is_first = not topic.subscribers
  local subscribers = is_first and redis.call('SCARD', call.keys.topic_subscribers(trigger.topic)) or #topic.subscribers
  local work = work_of(trigger, subscribers)
  local count = math.min(#firing.times, math.max(1, math.floor(progress.left / work)))
  local texts = texts_of(trigger, firing.name, firing.times, count)
  local bytes = intake.add(call, progress.intake_state, topic, texts)
  progress.left = progress.left - count * work - (is_first and subscribers * WORK_OF_SUBSCRIBER or 0)
  rates.take(call, progress.rates, firing.client, count, bytes)
  progress.spent[#progress.spent + 1] = { client = firing.client, events = count, bytes = bytes }
  return count
end

local function judge(call, progress, publication)
  local client = publication.client
  if progress.waiting[client] or rates.is_empty(call, progress.rates, client) then return 'rate_limited' end
  return intake.judge(call, progress.intake_state, publication)
end

local function store_result(call, result)
  local firing, state, fired, error = result.firing, result.state, result.fired, result.error
  local trigger, next_at = call.keys.trigger(firing.client, firing.name), result.next_at
  local fields = { fired = state.fired + fired, missed = state.missed + result.missed, next_at = next_at }
  if fired > 0 then fields.last_at = firing.times[fired] end
  if error then fields.error, fields.error_at = error, call.now_ms end
  local values = {}
  for name, value in pairs(fields) do values[#values + 1], values[#values + 2] = name, value end
  redis.call('HSET', trigger, unpack(values))
  if not next_at then redis.call('HDEL', trigger, 'next_at') end
  if state.error and fired > 0 then redis.call('HDEL', trigger, 'error', 'error_at') end
  local due, member = call.keys.triggers_due(), triggers.member(firing.client, firing.name)
  redis.call('ZADD', due, next_at or '+inf', member)
  if firing.error then agenda.postpone(call, due, member) end
end

-- Publishes the events of a trigger, if it may publish. Returns the outcome for the reply. The new state of the trigger
-- is collected in `progress.results`, and stored after the events.
local function fire(call, progress, firing)
  if progress.left <= 0 then return LEFT end
  local trigger, state = read(call, firing)
  if not trigger then return { outcome = 'changed', fired = 0 } end
  progress.left = progress.left - 1
  local times = firing.times
  local result = {
    firing = firing, state = state, fired = 0, missed = firing.missed, next_at = firing.next_at, error = firing.error,
  }
  local publication = { topic = trigger.topic, client = firing.client }
  local refusal = #times > 0 and judge(call, progress, publication)
  if refusal then
    result.missed, result.error = firing.missed + #times, ERRORS[refusal]
  elseif #times > 0 then
    result.fired = publish(call, progress, firing, trigger, publication)
    result.next_at = times[result.fired + 1] or firing.next_at
  end
  progress.results[#progress.results + 1] = result
  return { outcome = refusal or 'handled', fired = result.fired }
end

return function(call, args)
  local intake_state, outcomes = intake.begin(args), {}
  local progress = {
    intake_state = intake_state, rates = rates.begin(call, args), waiting = {}, spent = {}, left = MAX_WORK,
    results = {},
  }
  for _, client in ipairs(args.waiting) do progress.waiting[client] = true end
  for i, firing in ipairs(args.firings) do
    outcomes[i] = calls.throw_wrong_type_later(call, fire, progress, firing)
    if not outcomes[i] then
      redis.call('ZREM', call.keys.triggers_due(), triggers.member(firing.client, firing.name))
      outcomes[i] = LEFT
    end
  end
  storing.store(call, args.uid_seed, intake_state)
  rates.store(call, progress.rates)
  -- The events are stored before the new due times of their triggers. If a failover loses the later write, the events
  -- are published again. In the opposite order, a failover could lose events.
  for _, result in ipairs(progress.results) do store_result(call, result) end
  local published = storing.published(intake_state)
  return { now_ms = call.now_ms, outcomes = outcomes, spent = progress.spent, published = published }
end
