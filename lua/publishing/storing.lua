--[[
Storing: appends the events that an intake has accepted to the batches of their subscribers.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local intake = include('publishing/intake')
local join_tokens = include('flow/joins/join_tokens')
local many = include('store/many')
local open_batches = include('delivering/open_batches')
local opening = include('publishing/opening')
local outboxes = include('publishing/outboxes')
local storing = {}

-- Appends as many events to an open batch as fit. Returns how many, and the new length of the batch's list. If the
-- length is 0, the list no longer exists: nothing was appended, even if the first result is 1.
local function fill(batch, max, events)
  -- An open batch can always take one more event, so its length need not be read first.
  if #events == 1 then return 1, redis.call('RPUSHX', batch, events[1]) end
  local length = redis.call('LLEN', batch)
  if length == 0 then return 0, 0 end
  local appended = math.max(0, math.min(#events, max + batches.HEADER - length))
  for from = 1, appended, many.MAX_VALUES do
    redis.call('RPUSH', batch, unpack(events, from, math.min(from + many.MAX_VALUES - 1, appended)))
  end
  return appended, length + appended
end

-- Subtracts the bytes of new events from the room of the open batches that get them. The room of a batch is the number
-- of bytes that still fit into it. Returns the rooms that are left, by token of the subscriber. Subscribers without an
-- open batch are left out. Those whose open batch has only small events are left out too: such a batch reaches its
-- maximum of events long before its maximum of bytes.
local function take_room(call, intake_state, entries)
  local tokens, open, lists = {}, {}, {}
  for i, token in ipairs(intake_state.tokens) do
    local entry, events = entries[i], intake_state.events_of[token]
    if entry and open_batches.may_be_counted(entry, events) then
      tokens[#tokens + 1] = token
      open[#tokens], lists[#tokens] = entry, events
    end
  end
  return open_batches.take_room(call, tokens, open, lists)
end

-- Returns true if a join's open batch was created after another partition had accepted the new events. Such a batch
-- must not get these events: a join takes the creation time of a batch as the time of all its events.
local function is_too_young(call, token, entry)
  if call.accepted_us == call.now_us or not join_tokens.is_join(token) then return false end
  local created_ms = redis.call('LINDEX', call.keys.batch((open_batches.read_entry(entry))), 1)
  return (tonumber(created_ms) or 0) > call.accepted_ms
end

-- Stores all new events of a subscriber: appends those that fit to its open batch, and opens new batches for the rest.
-- Returns how many events it has stored, which is always `#events`.
--   entry  the open batch's entry in `batches:open`; false if there is none
--   room   how many bytes would be left in the open batch after all these events; nil if its bytes are not counted. If
--          `room` is negative, the batch is closed, and all the events go into new batches
local function append(call, opened, token, entry, room, events)
  local first = 1
  if entry and (room and room < 0 or is_too_young(call, token, entry)) then
    open_batches.close_full(call, token, (open_batches.read_entry(entry)))
  elseif entry then
    local bid, max = open_batches.read_entry(entry)
    local appended, length = fill(call.keys.batch(bid), max, events)
    if length == 0 then
      -- `batches:open` names a batch that no longer exists.
      open_batches.remove(call, token, bid)
      appended = 0
    elseif length - batches.HEADER >= max or room == 0 then
      open_batches.close_full(call, token, bid)
    end
    first = appended + 1
  end
  if first <= #events then opening.open(call, opened, token, events, first) end
  return #events
end

local function count(call, intake_state, counts)
  many.add_to_gauge(call.keys.gauge_events(), intake_state.tokens, counts)
end

-- Stores the accepted events in batches and in the outbox, and counts them for the topics of this partition.
--
-- If storing fails for one subscriber (a key has the wrong type, for example), the script goes on, and the error is
-- kept in `call.failure`. So the other subscribers get their events, and the script can delete the events where they
-- waited (an outbox, or the delayed events). Otherwise they would be stored again.
--
-- If Redis's ACL forbids a command, throws the error at the end. The events then stay where they waited, and the caller
-- repeats the script when the ACL permits the command.
function storing.store(call, uid_seed, intake_state)
  intake.end_run(intake_state)
  if #intake_state.tokens > 0 then open_batches.close_all_after_restart(call) end
  -- The open batches are read before the outbox is written. If this read came later and failed, the caller would repeat
  -- the script, which would append the same entries to the outbox again.
  local entries = #intake_state.tokens > 0 and many.get_fields(call.keys.batches_open(), intake_state.tokens)
  for _, topic in ipairs(intake_state.accepted) do
    if not topic.is_foreign then redis.call('HINCRBY', call.keys.topic(topic.name), 'counter', topic.events) end
  end
  outboxes.store(call, intake_state.outgoing)
  if not entries then return end
  local opened, counts = opening.begin(uid_seed), {}
  local rooms = calls.throw_later(call, take_room, intake_state, entries) or {}
  for i, token in ipairs(intake_state.tokens) do
    local events = intake_state.events_of[token]
    counts[i] = calls.throw_later(call, append, opened, token, entries[i], rooms[token], events) or 0
  end
  -- `enter` stores the jobs of all opened batches, so it is called even after an error.
  calls.throw_later(call, opening.enter, opened)
  calls.throw_later(call, count, intake_state, counts)
  if call.failure and calls.is_forbidden(call.failure) then error(call.failure) end
end

-- Returns, for each topic that got events:
--   events, bytes  the number of these events, and their bytes
--   subscribers    the topic's subscribers in this partition, a token on each line, which costs Redis less than a list
--   is_foreign     true if the topic lives in another partition
function storing.published(intake_state)
  local published = {}
  for i, topic in ipairs(intake_state.accepted) do
    published[i] = {
      topic = topic.name, events = topic.events, bytes = topic.bytes, is_foreign = topic.is_foreign,
      subscribers = table.concat(topic.subscribers, '\n'),
    }
  end
  return published
end

return storing
