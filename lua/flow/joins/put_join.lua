#!lua
--[[
put_join: make a join of a client, or change it. The join becomes a subscriber of its source topics, and a worker counts
the events in its batches.

The topics that the join publishes to (`outlets`) become the client's, as by a publish. A topic takes events from one
join only: `has_join` means that another join of the client, `join`, publishes to `topic`. `loop` means that events of
this join would come back to it through its source `topic`. `too_many_of_topic` means that 16 other joins of the client
count the events of `topic`. That is the maximum, since each of these joins gets a copy of every event. The other
refusals are those of publish and subscribe; `too_many_joins` and `too_many_client_joins` mean that the bus, or this
client, has its maximum of joins. A refusal changes nothing.

`sources_here` and `outlets_here` live in this partition. Before the call that stores the join, the caller makes two
kinds of calls in other partitions: mark_topics, so that the events of the other sources (`foreign_sources`) come here,
and claim_topics, which makes the client the publisher of the other outlets. A client has all of its joins in one
partition, so `has_join` is decided here for all outlets, and `loop` for joins of this client.

With `judges_only`, nothing changes, and the reply is the one that the call would get without it.

If a join is changed, its open join keys keep the counts of the sources that stay. If a source left and comes back, its
events are counted anew: the counts of a source are stored with the time at which it was added (`added_at`). A join key
is checked against the new rules at its next event, and expires by the new `within_ms`. Unknown source topics are
created without a publisher.
]]
local intake = include('publishing/intake')
local join_tokens = include('flow/joins/join_tokens')
local joins = include('flow/joins/joins')
local open_keys = include('flow/joins/open_keys')
local topics = include('subscribing/topics')

-- A join is stored as a subscriber: the events of its sources are queued for it in batches, and a worker counts each
-- event for its join key. `ordered` makes it count events in the order in which they were accepted. The timeout 0 makes
-- batches ready without delay. The limits keep batches so small that a few script calls count a whole batch.
local SETTINGS = { 'uuid', '', 'timeout', 0, 'max_events', 100, 'max_bytes', 262144, 'ordered', 1 }

-- Maximum number of joins of one client that may count the events of the same topic.
local MAX_OF_TOPIC = 16

-- Returns a source topic of this join that has no room for another join, because MAX_OF_TOPIC other joins of the client
-- have it as a source. Returns nothing if there is none.
local function crowded_source(call, args)
  local others = joins.of(call, args.client)
  if #others < MAX_OF_TOPIC then return end
  for _, source in ipairs(args.sources) do
    local count = 0
    for _, token in ipairs(others) do
      if token ~= args.token then
        count = count + redis.call('SISMEMBER', call.keys.topic_subscribers(source), token)
      end
    end
    if count >= MAX_OF_TOPIC then return source end
  end
end

-- Looks for a loop: goes from each source topic of this join to the join that publishes to it, on to the source topics
-- of that join, and so on. Returns a source topic from which this leads to an outlet (a topic to which this join
-- publishes), or nothing if there is no loop. Joins in other partitions are not seen here: `sourceInLoop`
-- (src/flow/joins/joins.ts) has searched through them.
local function loop_source(call, args, is_outlet)
  local keys, seen = call.keys, {}
  for _, source in ipairs(args.sources) do
    local left = { source }
    while #left > 0 do
      local topic = table.remove(left)
      if is_outlet[topic] then return source end
      local join = not seen[topic] and redis.call('HGET', keys.joins_into(), topic)
      seen[topic] = true
      -- The topics to which this join publishes now do not matter, because this call replaces them.
      if join and join ~= args.token then
        for _, before in ipairs(redis.call('SMEMBERS', keys.subscriber_topics(join))) do left[#left + 1] = before end
      end
    end
  end
end

-- An outlet is a topic to which the join publishes. If the join may not publish to one of its outlets, returns why,
-- the name of that topic and, with `has_join`, the name of the other join.
local function judge_outlets(call, args, intake_state)
  for _, topic in ipairs(args.outlets) do
    local join = redis.call('HGET', call.keys.joins_into(), topic)
    local name, client = join_tokens.read(join or '')
    -- Two joins of one client must not publish to the same topic. A topic that another client owns is refused later: by
    -- `judge_all` below or, in another partition, by claim_topics.
    if join and join ~= args.token and client == args.client then return 'has_join', topic, name end
  end
  return intake.judge_all(call, intake_state, args.client, args.outlets_here)
end

local function judge(call, args, intake_state)
  local keys = call.keys
  if redis.call('SISMEMBER', keys.joins(), args.token) == 0 then
    if redis.call('SCARD', keys.joins()) >= args.max_joins then return 'too_many_joins' end
    if redis.call('SCARD', keys.joins_of(args.client)) >= args.max_client_joins then return 'too_many_client_joins' end
  end
  local crowded = crowded_source(call, args)
  if crowded then return 'too_many_of_topic', crowded end
  local is_outlet = {}
  for _, topic in ipairs(args.outlets) do is_outlet[topic] = true end
  local source = loop_source(call, args, is_outlet)
  if source then return 'loop', source end
  local reason, topic, join = judge_outlets(call, args, intake_state)
  if reason then return reason, topic, join end
  if topics.have_no_room(call, args.sources_here, intake_state.max_topics) then return 'no_room' end
end

-- Returns, as JSON, when (µs) each source was added to the join. Leaves out the sources that the join has had since it
-- was made.
local function added_at(call, args, subscriber)
  local rules, text = unpack(redis.call('HMGET', subscriber, 'join', 'added_at'))
  if not rules then return '{}' end
  local before, times, added = {}, cjson.decode(text or '{}'), {}
  for _, source in ipairs(cjson.decode(rules).sources) do before[source.topic] = true end
  for _, topic in ipairs(args.sources) do
    added[topic] = before[topic] and times[topic] or not before[topic] and string.format('%d', call.now_us) or nil
  end
  return cjson.encode(added)
end

local function store(call, args, intake_state)
  local keys, token = call.keys, args.token
  local subscriber = keys.subscriber(token)
  joins.close_outlets(call, token)
  for _, topic in ipairs(args.outlets_here) do
    intake.accept(call, intake_state, { topic = topic, client = args.client })
  end
  for _, topic in ipairs(args.outlets) do joins.open_outlet(call, token, topic) end
  redis.call('SADD', keys.joins(), token)
  redis.call('SADD', keys.joins_of(args.client), args.name)
  redis.call('SADD', keys.subscribers(), token)
  redis.call('HSET', subscriber, 'callback', join_tokens.CALLBACK, 'subscribed_at', call.now_us, unpack(SETTINGS))
  local added = added_at(call, args, subscriber)
  redis.call('HSET', subscriber, 'join', args.rules, 'added_at', added, 'into', table.concat(args.outlets, ' '))
  redis.call('HSETNX', subscriber, 'health_points', 100)
  local is_new = redis.call('HSETNX', subscriber, 'created_at', call.now_ms) == 1
  -- An earlier join of this name may have left batches, whose events must not count for the new join. `counts_after` is
  -- the score of the last of these batches. Workers delete batches up to this score. All batches of the new join get
  -- higher scores.
  local last = is_new and redis.call('ZRANGE', keys.batches_queued(token), 0, 0, 'REV', 'WITHSCORES')[2]
  if last then redis.call('HSET', subscriber, 'counts_after', last) end
  topics.subscribe_to(call, token, args.sources_here, args.foreign_sources)
  open_keys.schedule(call, token, args.within_ms)
end

return function(call, args)
  local intake_state = intake.begin(args)
  local reason, topic, join = judge(call, args, intake_state)
  if reason then return { outcome = reason, topic = topic, join = join } end
  local is_new = redis.call('SISMEMBER', call.keys.joins(), args.token) == 0
  if not args.judges_only then store(call, args, intake_state) end
  return { outcome = is_new and 'created' or 'changed' }
end
