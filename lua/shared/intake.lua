--[[
Intake: which publications of one call are accepted, and which events each subscriber gets of them.

Events stay in ARGV as long as possible: a slice `{ list, first, last }` says where they are, and is copied
only where events of several publications go together; `owner` is the topic or subscriber that a copy was made
for.
]]
local intake = {}

-- `topics` by name, `accepted` those that got events; `run` has the events of publications to one topic that
-- follow each other; `tokens` and `slices` tell which subscribers get which events; `fingerprints` are those
-- of accepted idempotency keys.
function intake.begin(max_topics)
  return { max_topics = max_topics, topics = {}, accepted = {}, tokens = {}, slices = {}, fingerprints = {} }
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

-- Returns nothing, or why the client cannot publish to the topic.
local function claim(call, taken, topic, client)
  local keys = call.keys
  if not topic.publisher or topic.publisher == '' then
    local is_new = redis.call('SISMEMBER', keys.topics(), topic.name) == 0
    if is_new and redis.call('SCARD', keys.topics()) >= taken.max_topics then return 'no_room' end
    redis.call('HSET', keys.topic(topic.name), 'publisher', client)
    redis.call('SADD', keys.topics(), topic.name)
    topic.publisher = client
  end
  if topic.publisher ~= client then return 'claimed_by_other' end
end

-- Returns nothing, or what is known of the publication's idempotency key.
local function repetition(call, taken, publication)
  local digest = publication.digest
  if not digest then return end
  local before = taken.fingerprints[digest] or redis.call('GET', call.keys.idempotency(digest))
  if before then return before == publication.fingerprint and 'repeated' or 'key_reused' end
end

-- Gives the events of the current run to the subscribers of its topic. Those of one run share its slice.
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
    -- `events` is filled anew for the next publication.
    taken.run, taken.run_topic = { list = events.list, first = events.first, last = events.last, owner = false }, topic
  end
end

-- Accepts a publication or refuses it as a whole. Returns the outcome, and how many subscribers get it.
function intake.take(call, taken, publication)
  local refusal = repetition(call, taken, publication)
  if refusal then return refusal, 0 end
  local topic = read_topic(call, taken, publication.topic)
  refusal = claim(call, taken, topic, publication.client)
  if refusal then return refusal, 0 end
  if publication.digest then taken.fingerprints[publication.digest] = publication.fingerprint end
  add_to_run(call, taken, topic, publication.events)
  return 'accepted', #topic.subscribers
end

return intake
