#!lua flags=allow-oom
--[[
remove_subscriber: forget a subscriber and its subscriptions.

Its batches are dropped next (drop_queue), those created up to now: should the client subscribe again meanwhile, its new
batches are its own. Should the process die in between, their jobs find no subscriber and delete
them one by one.

KEYS
  schema                     string  names the partition
TOUCHES
  subscribers                set
  subscriber:{token}         hash
  topics:{token}             set
  subscribers:{topic}        set
  batches:current:{token}    set
ARGV
  token                      the subscriber
RETURNS
  found                      1, or 0 if there is no such subscriber
  now                        ms
]]
-- include: now

local token = ARGV[1]
local found = redis.call('SREM', key.subscribers(), token)
for _, topic in ipairs(redis.call('SMEMBERS', key.subscriber_topics(token))) do
  redis.call('SREM', key.topic_subscribers(topic), token)
end
redis.call('DEL', key.subscriber_topics(token), key.subscriber(token), key.batches_current(token))
return { found, now }
