--[[
Intake: decides which publications of one call are accepted, and which of their events each subscriber
gets.

Events stay in ARGV for as long as possible. A slice `{ list, first, last }` names the list that holds
them and their places in it. Events are copied only if those of several publications are joined. The
`owner` of a copy is the topic or the subscriber that the copy was made for.
]]
local client_quota = include('client_quota')
local intake = {}

-- Returns the state of one call. `topics` holds the topics by name, and `accepted` lists those that got
-- events. `run` is a slice of the events of successive publications to one topic. `tokens` lists the
-- subscribers that get events, and `slices` the events of each. `fingerprints` holds the fingerprint of each
-- accepted publication by the digest of its idempotency key.
function intake.begin(call, args)
  return {
    max_topics = args.max_topics, max_client_topics = args.max_client_topics,
    quota = client_quota.begin(call, call.keys.idempotency_quota, args.max_client_keys, args.idempotency_window_ms),
    topics = {}, accepted = {}, tokens = {}, slices = {}, fingerprints = {},
  }
end

local function append(slice, more)
  local list = slice.list
  for i = more.first, more.last do list[#list + 1] = more.list[i] end
  slice.last = #list
  return slice
end

local function copy_of(slice, owner)
  return append({ list = {}, first = 1, owner = owner }, slice)
end

local function read_topic(call, taken, name)
  local topic = taken.topics[name]
  if not topic then
    topic = { name = name, publisher = redis.call('HGET', call.keys.topic(name), 'publisher'), events = 0 }
    taken.topics[name] = topic
  end
  return topic
end

-- Claims the topic for the client if the topic has no publisher yet. Returns nothing if the client may
-- publish to it; otherwise the reason of the refusal.
local function claim(call, taken, topic, client)
  local keys = call.keys
  if not topic.publisher or topic.publisher == '' then
    local is_new = redis.call('SISMEMBER', keys.topics(), topic.name) == 0
    if is_new and redis.call('SCARD', keys.topics()) >= taken.max_topics then return 'no_room' end
    local owned = keys.topics_owned(client)
    if redis.call('SCARD', owned) >= taken.max_client_topics then return 'owns_too_many' end
    redis.call('SADD', owned, topic.name)
    redis.call('HSET', keys.topic(topic.name), 'publisher', client)
    redis.call('SADD', keys.topics(), topic.name)
    topic.publisher = client
  end
  if topic.publisher ~= client then return 'claimed_by_other' end
end

-- Returns nothing if the publication has no idempotency key, or a new one that its client may use. Otherwise
-- returns 'repeated' if the same publication was accepted under the key, 'key_reused' if another one was, and
-- 'too_many_keys' if the client may not use a new key now.
local function judge_key(call, taken, publication)
  local digest = publication.digest
  if not digest then return end
  local before = taken.fingerprints[digest] or redis.call('GET', call.keys.idempotency(digest))
  if before then return before == publication.fingerprint and 'repeated' or 'key_reused' end
  if client_quota.is_empty(taken.quota, publication.client) then return 'too_many_keys' end
end

-- Gives the current run (the events of successive publications to one topic) to every subscriber of the
-- topic. Subscribers without earlier events in this call share one slice; the others get a copy.
function intake.end_run(taken)
  local run = taken.run
  if not run then return end
  for _, token in ipairs(taken.run_topic.subscribers) do
    local slice = taken.slices[token]
    if not slice then
      taken.slices[token] = run
      taken.tokens[#taken.tokens + 1] = token
    elseif slice.owner == token then
      append(slice, run)
    else
      taken.slices[token] = append(copy_of(slice, token), run)
    end
  end
  taken.run = nil
end

local function add_to_run(call, taken, topic, events)
  if not topic.subscribers then
    topic.subscribers = redis.call('SMEMBERS', call.keys.topic_subscribers(topic.name))
    taken.accepted[#taken.accepted + 1] = topic
  end
  topic.events = topic.events + events.last - events.first + 1
  if taken.run and taken.run_topic == topic then
    taken.run = append(taken.run.owner and taken.run or copy_of(taken.run, topic), events)
  else
    intake.end_run(taken)
    -- Copies the fields, because the reader fills the table `events` anew for the next publication.
    taken.run, taken.run_topic = { list = events.list, first = events.first, last = events.last, owner = false }, topic
  end
end

-- Accepts or refuses a publication as a whole. Returns the outcome, and the number of subscribers that get
-- it, which is 0 if it is refused.
function intake.take(call, taken, publication)
  local refusal = judge_key(call, taken, publication)
  if refusal then return refusal, 0 end
  local topic = read_topic(call, taken, publication.topic)
  refusal = claim(call, taken, topic, publication.client)
  if refusal then return refusal, 0 end
  if publication.digest then
    taken.fingerprints[publication.digest] = publication.fingerprint
    client_quota.take(taken.quota, publication.client)
  end
  add_to_run(call, taken, topic, publication.events)
  return 'accepted', #topic.subscribers
end

return intake
