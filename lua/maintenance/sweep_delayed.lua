#!lua flags=allow-oom
--[[
sweep_delayed: check the delayed events of a topic, some in each script call, and repair what does not fit together.

Two rules hold. Each entry in the sorted set of due times has a text. The topic is in `delayed:topics` with the due time
of its first event. If a topic has no publisher, it does not exist, and its delayed events are deleted.
`has_texts_without_entry` says that there are more texts than entries. `client` is the publisher of the topic.

The first call has `from` 0. Until `is_finished` is true, the caller passes four values on to the next call: `from`, the
rank of the next entry; `added`, how many delayed events the topic had ever got when the first call began; `members`,
how many entries it had then, without those that the calls have removed; and `bytes`, the sum so far. If no event came
or went meanwhile, the last call corrects the stored bytes of the topic's delayed events.
]]
local agenda = include('flow/agenda')
local delayed = include('flow/delayed/delayed')
local findings = include('maintenance/findings')
local topics = include('subscribing/topics')

local CHECKED_PER_CALL = 300

local function delete_all(call, topic, found)
  local keys = call.keys
  local deleted = redis.call('EXISTS', keys.delayed_due(topic), keys.delayed_events(topic))
    + redis.call('ZREM', keys.delayed_topics(), topic)
  redis.call('UNLINK', keys.delayed_due(topic), keys.delayed_events(topic))
  if deleted > 0 then findings.add(found, 'delayed_without_topic', topic) end
end

-- Checks up to CHECKED_PER_CALL delayed events of a topic in the order of their due times, from the rank `from` on.
-- Returns how many were checked, how many were removed, and how many bytes the others take.
local function check_entries(call, topic, from, found)
  local due, bytes, removed = call.keys.delayed_due(topic), 0, 0
  local entries = redis.call('ZRANGE', due, from, from + CHECKED_PER_CALL - 1)
  for _, entry in ipairs(entries) do
    local id = delayed.id_of(entry)
    local event_bytes = delayed.bytes_at(call, topic, id)
    bytes = bytes + (event_bytes or 0)
    if not event_bytes then
      removed = removed + redis.call('ZREM', due, entry)
      findings.add(found, 'delayed_without_text', topic .. ' ' .. id)
    end
  end
  return #entries, removed, bytes
end

local function check_place(call, topic, found)
  local listed = redis.call('ZSCORE', call.keys.delayed_topics(), topic)
  local first = redis.call('ZRANGE', call.keys.delayed_due(topic), 0, 0, 'WITHSCORES')[2]
  if listed == (first or false) or agenda.is_placed(call, tonumber(listed or nil), tonumber(first)) then return end
  delayed.enter_topic(call, topic)
  findings.add(found, 'delayed_topic_misplaced', topic)
end

return function(call, args)
  local topic, found = args.topic, {}
  local publisher = topics.publisher(call, topic)
  local reply = { from = 0, added = 0, members = 0, bytes = 0, is_finished = true, has_texts_without_entry = false }
  reply.findings = found
  if not publisher then
    delete_all(call, topic, found)
    return reply
  end
  local due = call.keys.delayed_due(topic)
  local added, members = tonumber(redis.call('HGET', call.keys.topic(topic), 'delayed')) or 0, redis.call('ZCARD', due)
  local count, removed, bytes = check_entries(call, topic, args.from, found)
  reply.client = publisher
  reply.added = args.from == 0 and added or args.added
  reply.members = (args.from == 0 and members or args.members) - removed
  reply.bytes = (args.from == 0 and 0 or args.bytes) + bytes
  reply.from = args.from + count - removed
  reply.is_finished = count < CHECKED_PER_CALL
  if reply.is_finished then
    check_place(call, topic, found)
    reply.has_texts_without_entry = redis.call('HLEN', call.keys.delayed_events(topic)) > redis.call('ZCARD', due)
    local has_no_change = reply.added == added and reply.members == redis.call('ZCARD', due)
    local is_exact = has_no_change and not reply.has_texts_without_entry
    if is_exact and delayed.set_bytes(call, publisher, topic, reply.bytes) then
      findings.add(found, 'delayed_bytes_miscounted', topic)
    end
  end
  return reply
end
