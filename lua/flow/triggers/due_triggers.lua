#!lua flags=allow-oom
--[[
due_triggers: return at most `limit` of the triggers that are due (fewer if their definitions are long), and Redis's
time.

Clients take turns, so that a client with many overdue triggers does not keep others waiting: the reply has the first
due trigger of each client, then the second of each, and so on. `first_client` says which client begins.

A trigger whose topic takes no events now, because `max_outbox_bytes` wait for another partition (outboxes.lua), is left
out, and is due again after a second.

If the time of an entry in `triggers:due` differs from that of its trigger, the entry is corrected. An entry is removed
if its trigger is missing or cannot be read, or if the topic of the trigger cannot be read; in the last case, a sweep
enters the trigger again. If such entries stayed, the scheduler would find them due for ever.

`moving` has triggers that the caller must bring to the partition of their topic. They are due again after a second.
]]
local agenda = include('flow/agenda')
local calls = include('store/calls')
local intake = include('publishing/intake')
local triggers = include('flow/triggers/triggers')

-- Maximum bytes of trigger definitions that one script call reads. Reading a kilobyte takes Redis about 4 µs.
local MAX_DEFINITION_BYTES = 1000000
-- Maximum number of due triggers that a script call looks at, the earliest first. By default this is twice the number
-- of triggers that one client may have, so those of other clients are looked at too. Looking at 2,000 triggers takes
-- Redis 1 ms.
local MAX_DUE_READ = 2000

-- Returns four values: the definition of a trigger (nil if it is missing or unreadable), its next due time (nil if it
-- is paused or never due again), the length of the definition in bytes, and true if the trigger is being moved to
-- another partition.
local function read(call, client, name)
  local definition = calls.read_or_nil('HGET', call.keys.triggers_of(client), name)
  local state = calls.read_or_nil('HMGET', call.keys.trigger(client, name), 'next_at', 'paused', 'moving')
  if not definition or not state then return nil end
  local due_ms = tonumber(state[1] or nil)
  return triggers.read(definition), not state[2] and due_ms or nil, #definition, state[3] and true
end

-- Returns the topic of a trigger. Throws if a key that firing needs has the wrong type, so that the caller leaves the
-- trigger out. Otherwise fire_triggers would fail at this trigger, and other triggers would wait.
local function read_topic(call, intake_state, name)
  redis.call('SCARD', call.keys.topic_subscribers(name))
  return intake.topic(call, intake_state, name)
end

-- Chooses at most `limit` of the due triggers in `entries`: the first of each client, then the second of each, and so
-- on. `first_client` says which client comes first. Returns the positions of the chosen triggers in `entries`.
local function in_turns(entries, first_client, limit)
  local counts, rounds, chosen = {}, {}, {}
  for i = 1, #entries, 2 do
    local _, client = triggers.parts(entries[i])
    local count = (counts[client or ''] or 0) + 1
    counts[client or ''] = count
    rounds[count] = rounds[count] or {}
    table.insert(rounds[count], i)
  end
  for _, round in ipairs(rounds) do
    for i = 0, math.min(#round, limit - #chosen) - 1 do
      chosen[#chosen + 1] = round[(first_client + i) % #round + 1]
    end
  end
  return chosen
end

return function(call, args)
  local keys, due, moving, bytes, intake_state = call.keys, {}, {}, 0, intake.begin(args)
  local now = string.format('%d', call.now_ms)
  local entries =
    redis.call('ZRANGE', keys.triggers_due(), '-inf', now, 'BYSCORE', 'LIMIT', 0, MAX_DUE_READ, 'WITHSCORES')
  for _, i in ipairs(in_turns(entries, args.first_client, args.limit)) do
    local member, score = entries[i], tonumber(entries[i + 1])
    local name, client = triggers.parts(member)
    local trigger, due_ms, length, is_moving
    if name then trigger, due_ms, length, is_moving = read(call, client, name) end
    local topic = trigger and not is_moving
      and calls.throw_wrong_type_later(call, read_topic, intake_state, trigger.topic)
    if trigger and is_moving then
      moving[#moving + 1] = { client = client, name = name }
      agenda.postpone(call, keys.triggers_due(), member)
    elseif not topic then
      redis.call('ZREM', keys.triggers_due(), member)
    elseif not agenda.is_placed(call, score, due_ms) then
      triggers.enter(call, client, name, due_ms)
    elseif intake.outbox_refusal(call, intake_state, topic) then
      agenda.postpone(call, keys.triggers_due(), member)
    else
      due[#due + 1] = {
        client = client, name = name, due_at = due_ms,
        revision = trigger.revision, catch_up = trigger.catch_up, timing = trigger.timing,
      }
    end
    bytes = bytes + (length or 0)
    if bytes > MAX_DEFINITION_BYTES then break end
  end
  return { now_ms = call.now_ms, due = due, moving = moving }
end
