#!lua flags=allow-oom
--[[
unsubscribe: end one subscription. What is queued is still delivered.

KEYS
  schema                     string  names the partition
TOUCHES
  subscribers                set
  topics                     set
  topics:{token}             set
  subscribers:{topic}        set
ARGV
  token                      the subscriber
  topic                      the topic
RETURNS
  'ok', 'subscriber_not_found', 'topic_not_found' or 'not_subscribed'
]]
local token, topic = ARGV[1], ARGV[2]
if redis.call('SISMEMBER', key.subscribers(), token) == 0 then return 'subscriber_not_found' end
if redis.call('SISMEMBER', key.topics(), topic) == 0 then return 'topic_not_found' end
if redis.call('SREM', key.subscriber_topics(token), topic) == 0 then return 'not_subscribed' end
redis.call('SREM', key.topic_subscribers(topic), token)
return 'ok'
