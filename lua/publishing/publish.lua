#!lua
--[[
publish: append events to the current batch of every subscriber of their topics, for many publications in one
call.

Each publication is all or nothing: its topic is claimed for the client, or found to be another's, before
anything is stored. A subscriber's events stay in the order of acceptance, over all its topics. A batch that
fills up is closed and its job made instant. A new batch gets its job in the same step, so no batch is ever
without one. The batches of an ordered subscriber stand in its index strictly in their order. A publication
that was accepted under an idempotency key is known for a while: the same again, even in one call, is answered
`repeated` and not stored.

The reply has for each publication its outcome, and how many subscribers got it; and for each topic how many
events its subscribers got, and their tokens, a line each (one text costs less than a list).
]]
local batches = include('batches')
local bulk = include('bulk')
local calls = include('calls')
local intake = include('intake')
local open_batches = include('open_batches')
local opening = include('opening')

-- Fills an open batch. Returns how many events it took, and how long its list is then; 0 if the list is gone.
local function fill(batch, max, list, first, last)
  -- One event fits into any open batch: no need to look how long it is.
  if first == last then return 1, redis.call('RPUSHX', batch, list[first]) end
  local length = redis.call('LLEN', batch)
  if length == 0 then return 0, 0 end
  local taken = math.max(0, math.min(last - first + 1, max + batches.HEADER - length))
  for from = first, first + taken - 1, bulk.MAX_VALUES do
    redis.call('RPUSH', batch, unpack(list, from, math.min(from + bulk.MAX_VALUES, first + taken) - 1))
  end
  return taken, length + taken
end

-- `entry` is that of the subscriber's open batch, if it has one.
local function append(call, opened, token, entry, slice)
  local list, first, last = slice.list, slice.first, slice.last
  if entry then
    local bid, max = open_batches.read_entry(entry)
    local taken, length = fill(call.keys.batch(bid), max, list, first, last)
    if length == 0 then
      -- A batch whose list is gone is forgotten.
      open_batches.close(call, token, bid)
      taken = 0
    elseif length - batches.HEADER >= max then
      open_batches.close_full(call, token, bid)
    end
    first = first + taken
  end
  if first <= last then opening.open(call, opened, token, list, first, last) end
end

-- Appends what each subscriber gets. `counts` gets how many events each got, up to the first subscriber that
-- fails.
local function append_all(call, opened, taken, entries, counts)
  for i, token in ipairs(taken.tokens) do
    local slice = taken.slices[token]
    append(call, opened, token, entries[i], slice)
    counts[i] = slice.last - slice.first + 1
  end
end

local function store(call, uid_seed, taken)
  for _, topic in ipairs(taken.accepted) do
    redis.call('HINCRBY', call.keys.topic(topic.name), 'counter', topic.events)
  end
  if #taken.tokens == 0 then return end
  local opened, counts = opening.begin(uid_seed), {}
  local entries = bulk.get_fields(call.keys.batches_open(), taken.tokens)
  calls.try(call, append_all, opened, taken, entries, counts)
  -- What was begun is completed even if one subscriber's part has failed (a key of the wrong type, say).
  opening.enter(call, opened)
  bulk.add_to_gauge(call.keys.gauge_events(), taken.tokens, counts)
end

return function(call, args)
  local taken, outcomes, subscribers, added = intake.begin(args.max_topics), {}, {}, {}
  for publication in args.publications do
    local i = #outcomes + 1
    outcomes[i], subscribers[i] = intake.take(call, taken, publication)
  end
  intake.end_run(taken)
  store(call, args.uid_seed, taken)
  -- Written last: if the call fails half-way, none of its publications counts as accepted under its key.
  if not call.failure then
    for digest, fingerprint in pairs(taken.fingerprints) do
      redis.call('SET', call.keys.idempotency(digest), fingerprint, 'PX', args.idempotency_window_ms)
    end
  end
  for i, topic in ipairs(taken.accepted) do
    added[i] = { events = topic.events, subscribers = table.concat(topic.subscribers, '\n') }
  end
  return { outcomes = outcomes, subscribers = subscribers, added = added }
end
