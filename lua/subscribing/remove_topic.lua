#!lua flags=allow-oom
--[[
remove_topic: forget a topic and end its subscriptions. What is queued is still delivered.

KEYS
  schema                     string  names the partition
TOUCHES
  topics                     set
  topic:{topic}              hash    reads publisher
  topics:{token}             set
  subscribers:{topic}        set
ARGV
  topic                      the topic
  client                     who asks: its publisher's token; empty: root
RETURNS
  'ok', 'topic_not_found' or 'forbidden'
]]
local topic, client = ARGV[1], ARGV[2]
if redis.call('SISMEMBER', key.topics(), topic) == 0 then return 'topic_not_found' end
if client ~= '' and redis.call('HGET', key.topic(topic), 'publisher') ~= client then return 'forbidden' end
for _, token in ipairs(redis.call('SMEMBERS', key.topic_subscribers(topic))) do
  redis.call('SREM', key.subscriber_topics(token), topic)
end
redis.call('DEL', key.topic_subscribers(topic), key.topic(topic))
redis.call('SREM', key.topics(), topic)
return 'ok'
