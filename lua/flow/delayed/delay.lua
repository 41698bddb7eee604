#!lua
--[[
delay: accept publications with events that are to be published later.

A publication is accepted or refused as a whole, before any event is stored. publish.lua describes the refusals and the
effect of idempotency keys. An event is due at `at` (ms), or `delay` ms from now; without either it is due now. An event
that is not due yet is stored for its topic (delayed.lua). The other events are stored as by publish.lua, in the order
of the publication. `text` is the JSON of an event. If the event also has a `rest`, its JSON is made by joining `text`,
the due time (the event's timestamp) and `rest`.

Further refusals: `too_far` if an event is due more than `max_delay_ms` from now; `already_delayed` if the topic has a
delayed event with the same id, or the publication has the id twice; `too_many_delayed` and `too_much_delayed` if the
client would have more delayed events than `max_client_delayed`, or these would take more than `max_client_bytes`.
`index` is the position (from 0) of the event for which a publication is refused.

`subscribers` of an outcome is 0 if none of its events was published at once. `published` has each topic that got events
at once (storing.lua). `now_ms` is Redis's time: an event whose `at` is not later was published at once.
]]
local delayed = include('flow/delayed/delayed')
local intake = include('publishing/intake')
local storing = include('publishing/storing')

-- This script adds the field `to_delay` to the table of a topic (intake.lua): a list of the events to delay. The field
-- `ids` of this list is a set of their ids.

-- Returns how many delayed events a client has, and how many bytes they take, including those that this call has
-- accepted so far. `all_totals` caches both for each client.
local function totals_of(call, all_totals, client)
  local totals = all_totals[client]
  if not totals then
    totals = {}
    totals.events, totals.bytes = delayed.held_by(call, client)
    all_totals[client] = totals
  end
  return totals
end

-- Returns the time (ms) at which an event is due, as a number and as text. For an event without a time, returns 0 and
-- no text.
local function due_of(call, event)
  if not event.delay then return tonumber(event.at) or 0, event.at end
  local due_ms = call.now_ms + event.delay
  return due_ms, string.format('%d', due_ms)
end

-- Separates the events of a publication. Returns the JSON texts of the events to publish now, and a list of the events
-- to delay. The list has the fields `bytes` (the memory that its events will take) and `last` (the event that is due
-- last). If an event is due more than `max_delay_ms` from now, returns nil, nil and the index of this event.
local function separate(call, publication, max_delay_ms)
  local due_events, to_delay = {}, { bytes = 0 }
  for i, event in ipairs(publication.events) do
    local due_ms, due = due_of(call, event)
    local text = event.rest and event.text .. due .. event.rest or event.text
    if due_ms <= call.now_ms then
      due_events[#due_events + 1] = text
    elseif due_ms > call.now_ms + max_delay_ms then
      return nil, nil, i - 1
    else
      local event_to_delay = { id = event.id, due_ms = due_ms, due = due, text = text, index = i - 1 }
      to_delay[#to_delay + 1] = event_to_delay
      to_delay.bytes = to_delay.bytes + delayed.bytes_of(#text)
      if not to_delay.last or due_ms >= to_delay.last.due_ms then to_delay.last = event_to_delay end
    end
  end
  return due_events, to_delay
end

-- Finds the first event in `to_delay` that has the same id as a delayed event of the topic, or as an earlier event in
-- `to_delay`. Returns its position (from 0) in the publication, or nothing if there is no such event.
local function find_repeated(call, topic, to_delay)
  local hash, known, ids = call.keys.delayed_events(topic.name), topic.to_delay and topic.to_delay.ids or {}, {}
  for _, event in ipairs(to_delay) do
    local id = event.id
    if ids[id] or known[id] or redis.call('HEXISTS', hash, id) == 1 then return event.index end
    ids[id] = true
  end
end

-- Returns why the events to delay (`to_delay`) may not be stored and, if a single event is the reason, the index of
-- this event. Returns nothing if they may be stored.
--
-- If a publication is sent twice, the second one must get `already_delayed`, even if the client has no room for more
-- delayed events. So ids are compared in any case. Without room, only the id of the event that is due last is compared:
-- if the publication was sent before, this event stays stored the longest.
local function judge_delay(call, args, topic, totals, to_delay)
  local full = delayed.judge_room(totals.events + #to_delay, totals.bytes + to_delay.bytes, args)
  local repeated = find_repeated(call, topic, full and { to_delay.last } or to_delay)
  if repeated then return 'already_delayed', repeated end
  return full
end

local function refused(outcome, index)
  return { outcome = outcome, index = index, subscribers = 0 }
end

-- Accepts a publication: adds its events to those that are stored at the end of the script call. Returns the outcome
-- for the reply.
local function accept(call, intake_state, publication, due_events, to_delay)
  local topic = intake.accept(call, intake_state, publication)
  local subscribers = 0
  if #due_events > 0 then
    intake.add(call, intake_state, topic, due_events)
    subscribers = intake.count_subscribers(topic)
  end
  if #to_delay > 0 then topic.to_delay = topic.to_delay or { ids = {} } end
  for _, event in ipairs(to_delay) do
    table.insert(topic.to_delay, event)
    topic.to_delay.ids[event.id] = true
  end
  return { outcome = 'accepted', subscribers = subscribers }
end

local function take(call, args, intake_state, all_totals, publication)
  local refusal, index = intake.judge(call, intake_state, publication), nil
  if refusal then return refused(refusal) end
  local due_events, to_delay, far_index = separate(call, publication, args.max_delay_ms)
  if not due_events then return refused('too_far', far_index) end
  if #to_delay > 0 then
    local totals = totals_of(call, all_totals, publication.client)
    local topic = intake.topic(call, intake_state, publication.topic)
    refusal, index = judge_delay(call, args, topic, totals, to_delay)
    if refusal then return refused(refusal, index) end
    totals.events, totals.bytes = totals.events + #to_delay, totals.bytes + to_delay.bytes
  end
  return accept(call, intake_state, publication, due_events, to_delay)
end

return function(call, args)
  local intake_state, all_totals, outcomes = intake.begin(args), {}, {}
  for i, publication in ipairs(args.publications) do
    outcomes[i] = take(call, args, intake_state, all_totals, publication)
  end
  storing.store(call, args.uid_seed, intake_state)
  -- If the due events could not be stored, the publisher may send the publication again. So no delayed events and no
  -- idempotency keys are stored then. Otherwise the bus would refuse the second publication (`already_delayed`), or
  -- ignore it as a repetition.
  if not call.failure then
    for name, topic in pairs(intake_state.topics) do
      if topic.to_delay then delayed.add(call, topic.publisher, name, topic.to_delay) end
    end
    intake.remember(call, intake_state)
  end
  return { outcomes = outcomes, published = storing.published(intake_state), now_ms = call.now_ms }
end
