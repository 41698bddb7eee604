#!lua flags=allow-oom
--[[
remove_subscriber: forget a subscriber, its subscriptions, and what was dropped of its queue.

Its dead letters (purge) and its batches (drop_queue) go next, those created up to now: should the client subscribe again
meanwhile, its new ones are its own. Should the process die in between, the jobs of the batches find no subscriber and delete
them one by one; if it was paused, all of them wait aside, hence one is brought back.

KEYS
  schema                     string  names the partition
TOUCHES
  subscribers                set
  subscriber:{token}         hash
  topics:{token}             set
  subscribers:{topic}        set
  batches:open               hash
  batches:current:{token}    set
  batches:index:{token}      zset
  jobs:waiting:{token}       zset
  jobs:instant:{q}           list
  gap:{token}                hash
  gap:telling:{token}        hash
  dropped:{token}            hash
ARGV
  token                      the subscriber
RETURNS
  found                      1, or 0 if there is no such subscriber
  now                        ms
]]
-- include: now
-- include: jobs
-- include: waiting

local token = ARGV[1]
local found = redis.call('SREM', key.subscribers(), token)
for _, topic in ipairs(redis.call('SMEMBERS', key.subscriber_topics(token))) do
  redis.call('SREM', key.topic_subscribers(topic), token)
end
redis.call('DEL', key.subscriber_topics(token), key.subscriber(token), key.batches_current(token))
redis.call('HDEL', key.batches_open(), token)
redis.call('DEL', key.gap(token), key.gap_telling(token), key.dropped(token))
bring_back(token, 1)
announce()
return { found, now }
