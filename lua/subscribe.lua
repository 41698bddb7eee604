#!lua
--[[
subscribe: make or change a subscriber, and subscribe it to exactly these topics.

Topics that nobody knows are created without a publisher. What is left empty keeps its old value. A shorter timeout counts
for the batch that is open already.

KEYS
  schema                     string  names the partition
TOUCHES
  subscribers                set
  subscriber:{token}         hash    callback, uuid, timeout, max_events, health_points
  topics                     set
  topics:{token}             set
  subscribers:{topic}        set
  batches:current:{token}    set
  jobs:scheduled:{q}         zset
ARGV
  token                      the client
  callback                   URL
  uuid                       the user name of deliveries; may be empty
  timeout                    ms, or empty
  max_events                 or empty
  topic…                     the topics
RETURNS
  nothing
]]
-- include: now
-- include: jobs

local DEFAULTS = { 'timeout', 500, 'max_events', 100, 'health_points', 100 }

local token, callback, uuid, timeout, max_events = unpack(ARGV, 1, 5)
local subscriber = key.subscriber(token)
redis.call('SADD', key.subscribers(), token)
redis.call('HSET', subscriber, 'callback', callback, 'uuid', uuid)
if timeout ~= '' then redis.call('HSET', subscriber, 'timeout', timeout) end
if max_events ~= '' then redis.call('HSET', subscriber, 'max_events', max_events) end
for i = 1, #DEFAULTS, 2 do
  redis.call('HSETNX', subscriber, DEFAULTS[i], DEFAULTS[i + 1])
end

if timeout ~= '' then
  for _, bid in ipairs(redis.call('SMEMBERS', key.batches_current(token))) do
    local job = batch_job(bid)
    local due = tonumber(redis.call('ZSCORE', key.jobs_scheduled('main'), job))
    if due and due > now + timeout then make_scheduled('main', job, now + timeout) end
  end
  announce()
end

local wanted = {}
for i = 6, #ARGV do
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
