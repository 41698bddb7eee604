#!lua
--[[
subscribe: make or change a subscriber, and subscribe it to exactly these topics.

Topics that nobody knows are created without a publisher. What is left empty keeps its old value. A shorter timeout and
a smaller max_events count for the batch that is open already. One that was paused, or has another callback now, is tried at
once; one whose lane became wider brings back what waited. A new signing key leaves those before it some time.

KEYS
  schema                     string  names the partition
TOUCHES
  subscribers                set
  subscriber:{token}         hash    callback, uuid, subscribed_at, health_points, signing, the settings; ends paused_at, throttled_until, probe
  topics                     set
  topics:{token}             set
  subscribers:{topic}        set
  batch:{bid}                list
  batches:open               hash
  batches:current:{token}    set
  batches:index:{token}      zset
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:waiting:{token}       zset
ARGV
  token                      the client
  callback                   URL
  uuid                       the user name of deliveries; may be empty
  timeout                    ms, or empty
  max_events                 or empty
  ordered                    1: one batch at a time, in the order of acceptance; 0; or empty
  max_in_flight              how many deliveries may be in flight, or empty
  max_attempts               after how many a batch is a dead letter, or empty
  max_age                    ms after which it is, or empty
  lane_limit_max             the most deliveries that any subscriber may have in flight
  signing_key                signs from now on; `none`: nothing does; or empty
  overlap                    ms for which the keys before it go on signing
  most_topics                how many topics there may be
  most_subscribers           how many subscribers there may be
  topic…                     the topics, each once
RETURNS
  ok, or why nothing was changed: too_many_topics, too_many_subscribers
]]
-- include: now
-- include: jobs
-- include: open_batch
-- include: batches
-- include: waiting
-- include: closing
-- include: probe
-- include: signing

local SETTINGS = { 'timeout', 'max_events', 'ordered', 'max_in_flight', 'max_attempts', 'max_age' }
local DEFAULTS = { 'timeout', 500, 'max_events', 100, 'health_points', 100 }

local token, callback, uuid, timeout, max_events = unpack(ARGV, 1, 5)
local SETTINGS_AT, LANE_LIMIT_MAX, TOPICS_AT = 4, tonumber(ARGV[10]), 15
local signing_key, overlap = ARGV[11], tonumber(ARGV[12])
local MOST_TOPICS, MOST_SUBSCRIBERS = tonumber(ARGV[13]), tonumber(ARGV[14])

local function has_no_room(set, most, first, last)
  local new = 0
  for i = first, last do
    if redis.call('SISMEMBER', set, ARGV[i]) == 0 then new = new + 1 end
  end
  return new > 0 and redis.call('SCARD', set) + new > most
end
if has_no_room(key.subscribers(), MOST_SUBSCRIBERS, 1, 1) then return 'too_many_subscribers' end
if has_no_room(key.topics(), MOST_TOPICS, TOPICS_AT, #ARGV) then return 'too_many_topics' end

local subscriber = key.subscriber(token)
local function lane_settings()
  local ordered, max_in_flight = unpack(redis.call('HMGET', subscriber, 'ordered', 'max_in_flight'))
  return (ordered or '') .. ' ' .. (max_in_flight or '')
end
local lane_before = lane_settings()
local callback_before, probe = unpack(redis.call('HMGET', subscriber, 'callback', 'probe'))
local moved = (callback_before or callback) ~= callback
redis.call('SADD', key.subscribers(), token)
-- To the microsecond: it tells this subscription from the one before, of which deliveries may be under way.
redis.call('HSET', subscriber, 'callback', callback, 'uuid', uuid, 'subscribed_at', time[1] * 1000000 + time[2])
for i, name in ipairs(SETTINGS) do
  local value = ARGV[SETTINGS_AT + i - 1]
  if value ~= '' then redis.call('HSET', subscriber, name, value) end
end
if signing_key == 'none' then
  redis.call('HDEL', subscriber, 'signing')
elseif signing_key ~= '' then
  local signing = redis.call('HGET', subscriber, 'signing')
  redis.call('HSET', subscriber, 'signing', replaced(signing or '', signing_key, overlap))
end
for i = 1, #DEFAULTS, 2 do
  redis.call('HSETNX', subscriber, DEFAULTS[i], DEFAULTS[i + 1])
end

local entry = redis.call('HGET', key.batches_open(), token)
local open = entry and read_entry(entry)
if open and timeout ~= '' then
  local job = batch_job(open)
  local due = tonumber(redis.call('ZSCORE', key.jobs_scheduled('main'), job))
  if due and due > now + timeout then make_scheduled('main', job, now + timeout) end
end
if open and max_events ~= '' then
  local most = most_events(max_events)
  redis.call('HSET', key.batches_open(), token, open_entry(open, most))
  if redis.call('LLEN', key.batch(open)) - HEAD >= most then close_batch(token, open) end
end

-- One that was paused, or has moved, is tried at once.
local paused = redis.call('HDEL', subscriber, 'paused_at') == 1
if paused or moved then
  redis.call('HDEL', subscriber, 'throttled_until')
  if probe then release_probe(token, probe) end
end
if paused or moved or lane_settings() ~= lane_before then bring_back(token, LANE_LIMIT_MAX) end
announce()

local wanted = {}
for i = TOPICS_AT, #ARGV do
  local topic = ARGV[i]
  wanted[topic] = true
  redis.call('SADD', key.topics(), topic)
  redis.call('SADD', key.subscriber_topics(token), topic)
  redis.call('SADD', key.topic_subscribers(topic), token)
end
for _, topic in ipairs(redis.call('SMEMBERS', key.subscriber_topics(token))) do
  if not wanted[topic] then
    redis.call('SREM', key.subscriber_topics(token), topic)
    redis.call('SREM', key.topic_subscribers(topic), token)
  end
end
return 'ok'
