--[[
Join work: completes and expires open join keys of a join in one script call, and publishes the events of the join about
these join keys.

`args` are the arguments of the script: the join (`token`, `name`, `client`), its `sources`, `within_ms`, the topic and
the type of its events for complete join keys (`then_topic`, `then_type`), the topic and the type of its events for
expired join keys, if it has such events (`expiry_topic`, `expiry_type`), and the limits on topics. If one of these
topics lives in another partition, `then_home` or `expiry_home` is the number of that partition, which gets the events
by an outbox. `max_outbox_bytes` is the limit on outboxes (outboxes.lua).
]]
local copies = include('publishing/copies')
local intake = include('publishing/intake')
local key_records = include('flow/joins/key_records')
local open_keys = include('flow/joins/open_keys')
local outboxes = include('publishing/outboxes')
local storing = include('publishing/storing')
local join_work = {}

local ID_LENGTH = 32
-- Making an event takes Redis as long as storing this many copies, and this many more for each source topic. Usually a
-- script call makes few events, but after a change of rules a single join key can be complete thousands of times.
-- Before this work was counted, such a call made 20,000 events and blocked Redis for half a second.
local COPIES_PER_EVENT, COPIES_PER_SOURCE = 30, 15

-- Returns why the join may not publish to a topic, or nothing if it may:
--   replaced          the topic no longer takes events from this join
--   claimed_by_other  the topic belongs to another client
--   no_room           the topic was deleted, and the bus has its maximum of topics
--   owns_too_many     the topic was deleted, and the join's client owns its maximum of topics
--   outbox_full       too many bytes wait already to be sent to another partition; the join must wait
-- If the topic lives in another partition, `home` is the number of that partition. Then only `replaced` and
-- `outbox_full` are checked here, and that partition checks the rest.
local function refusal(call, intake_state, args, topic, home)
  if redis.call('HGET', call.keys.joins_into(), topic) ~= args.token then return 'replaced' end
  if home then
    local outgoing, max_bytes = intake_state.outgoing, intake_state.max_outbox_bytes
    local is_full = outboxes.are_full(call, outgoing, { { partition = home } }, max_bytes)
    return is_full and 'outbox_full' or nil
  end
  return intake.judge(call, intake_state, { topic = topic, client = args.client })
end

-- Returns a table about an outlet, a topic to which the join publishes. Some fields:
--   texts    the events to publish
--   copies   how many copies the script call counts for one event: one for each subscriber in this partition, and one
--            for the event itself
--   home     the number of the topic's partition; nil if it is this one
--   refusal  why the join may not publish to the topic; nil if it may
local function outlet(call, intake_state, args, topic, type, home)
  return {
    topic = topic, type = type, home = home, refusal = refusal(call, intake_state, args, topic, home),
    texts = {}, copies = 1 + redis.call('SCARD', call.keys.topic_subscribers(topic)),
  }
end

-- Creates the working state of one script call for a join. `complete_outlet` describes the topic for events about
-- complete join keys. `expiry_outlet` describes the topic for events about expired join keys, or is nil if the join has
-- no such topic. If the two topics are the same, the outlets share their `texts`, which keeps the events in order.
function join_work.begin(call, args)
  local counts, intake_state = {}, intake.begin(args)
  for _, source in ipairs(args.sources) do counts[source.topic] = source.count end
  local created_at, published, added_at =
    unpack(redis.call('HMGET', call.keys.subscriber(args.token), 'created_at', 'published', 'added_at'))
  local work = {
    args = args, intake_state = intake_state,
    open = open_keys.begin(call, args.token, counts, cjson.decode(added_at or '{}')),
    complete_outlet = outlet(call, intake_state, args, args.then_topic, args.then_type, args.then_home),
    expiry_outlet = args.expiry_topic
      and outlet(call, intake_state, args, args.expiry_topic, args.expiry_type, args.expiry_home),
    id_of = { created_at = created_at or '', published = published or 0 },
    published = 0, copies = 0, completed = 0, expired = 0, evicted = 0, now = string.format('%d', call.now_ms),
  }
  if args.expiry_topic == args.then_topic then work.expiry_outlet.texts = work.complete_outlet.texts end
  return work
end

-- True if the outlet `to` (a topic to which the join publishes, or nil) takes no events now, because too many bytes
-- wait for another partition.
function join_work.must_wait(to)
  return to and to.refusal == 'outbox_full'
end

-- True if the script call has published as many copies as it may. A copy is an event for one subscriber. Making an
-- event takes time too, so each event adds COPIES_PER_EVENT to the copies.
function join_work.is_full(work)
  return work.copies >= copies.MAX.join
end

-- Returns a text as a JSON string. Calls cjson only if a character must be escaped, because cjson takes longer. Removes
-- the backslashes that cjson puts before slashes.
local function json(text)
  if not text:find('[%c"\\]') then return '"' .. text .. '"' end
  return (cjson.encode(text):gsub('\\/', '/'))
end

-- Returns the id of the next event of a join: a hash of the join's token, the time (ms) at which the join was created,
-- the number of events that it published before, and the content of the event. Because of the time, a join that is
-- removed and made again gets new ids. A failover may set the number back. Then the same event gets the same id again,
-- but another event gets another id, because its content differs.
local function event_id(work, to, key, ids, rest)
  local of = work.id_of
  local number = of.published + work.published
  local parts = { work.args.token, of.created_at, number, to.topic, to.type, key, rest, unpack(ids) }
  return redis.sha1hex(table.concat(parts, ' ')):sub(1, ID_LENGTH)
end

-- Makes an event about the join key `key`, as JSON text, and adds it to `to.texts`. `store` later publishes all of
-- `to.texts` to the topic of `to`. `rest` is JSON for the end of the event's data: empty, or members such as
-- `,"early":true`.
local function publish(work, to, key, url, ids, rest)
  work.published = work.published + 1
  local id = event_id(work, to, key, ids, rest)
  local listed = #ids > 0 and '"' .. table.concat(ids, '","') .. '"' or ''
  local text = table.concat({
    '{"id":"', id, '","topic":"', to.topic, '","type":"', to.type, '","url":', json(url), ',"t":',
    work.now, ',"data":{"join":"', work.args.name, '","key":', json(key),
    ',"events":[', listed, ']', rest, '}}',
  })
  to.texts[#to.texts + 1] = text
  local making = COPIES_PER_EVENT + #work.args.sources * COPIES_PER_SOURCE
  work.copies = work.copies + making + copies.of(1, #text, to.copies)
end

-- Publishes the event for a complete join key, and removes the events that completed it from the key's record.
function join_work.complete(call, work, key, record)
  local url, sources = record.url, work.args.sources
  publish(work, work.complete_outlet, key, url, open_keys.take_complete(call, work.open, key, record, sources), '')
  work.completed = work.completed + 1
end

-- Closes a join key for which events are still missing. Publishes an event about the key to the join's topic for
-- expired join keys, if the join has such a topic and may publish to it. `is_early` is true if the key has not expired
-- yet, but the join has too many open keys, or they take too many bytes.
function join_work.expire(work, key, is_early)
  local record, to = open_keys.read(work.open, key), work.expiry_outlet
  if record and to and not to.refusal then
    local sources, counts = work.args.sources, {}
    for i, source in ipairs(sources) do
      local count = record.counts[source.topic]
      counts[i] = ('"%s":%d'):format(source.topic, count and count.events or 0)
    end
    local rest = ',"counts":{' .. table.concat(counts, ',') .. '}' .. (is_early and ',"early":true' or '')
    publish(work, to, key, record.url, key_records.ids(record, sources), rest)
  end
  open_keys.close(work.open, key)
  work.expired = work.expired + 1
  if is_early then work.evicted = work.evicted + 1 end
end

-- Claims the topic of an outlet for the client, if there are events for the topic and it lives in this partition. A
-- join may publish to two topics. Both were checked when the script call began. But claiming the first one may have
-- created that topic, and then the bus may have its maximum of topics. So each is checked again.
local function accept(call, work, to)
  if #to.texts == 0 or to.home then return end
  local publication = { topic = to.topic, client = work.args.client }
  to.refusal = intake.judge(call, work.intake_state, publication)
  to.accepted = not to.refusal and intake.accept(call, work.intake_state, publication)
end

local function add(call, work, to)
  if #to.texts == 0 then return end
  if to.home then
    -- Events that were added before must come before these in the outbox.
    intake.end_run(work.intake_state)
    local about = { work.args.client, work.args.token, to.texts }
    outboxes.add(work.intake_state.outgoing, to.home, 'publish', to.topic, about)
  elseif to.accepted then
    intake.add(call, work.intake_state, to.accepted, to.texts)
  end
end

-- Publishes the events of a script call for a join, and writes its other changes. Returns what was published, by topic.
--
-- The order matters, because a Redis that is killed may keep only the first writes:
--   - The field `published` comes first, because event ids are made from this count. If it were lost, a later event
--     could get the id of a stored one.
--   - The records of join keys come after the events. If records are lost, events are published twice, but none is
--     missing.
function join_work.store(call, work)
  local subscriber = call.keys.subscriber(work.args.token)
  if work.published > 0 then redis.call('HINCRBY', subscriber, 'published', work.published) end
  local complete_outlet, expiry_outlet = work.complete_outlet, work.expiry_outlet
  local has_two = expiry_outlet and expiry_outlet.texts ~= complete_outlet.texts
  accept(call, work, complete_outlet)
  if has_two then accept(call, work, expiry_outlet) end
  -- In one script call, a join key can expire, be opened again by later events, and become complete. Therefore its
  -- expiry is published first.
  if has_two then add(call, work, expiry_outlet) end
  add(call, work, complete_outlet)
  storing.store(call, work.args.uid_seed, work.intake_state)
  open_keys.store(work.open)
  for _, field in ipairs({ 'completed', 'expired', 'evicted' }) do
    if work[field] > 0 then redis.call('HINCRBY', subscriber, field, work[field]) end
  end
  return storing.published(work.intake_state)
end

return join_work
