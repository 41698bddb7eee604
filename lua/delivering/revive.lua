#!lua
--[[
revive: make dead letters ready batches again, opened now: their attempts and their age begin anew.

Each comes last in the queue of its subscriber, and its job is instant. The history of its attempts is kept. Only letters of
who asks, and not those of a subscriber that has left. Not while memory is exhausted, though it takes next to none: dead
letters are the first to be dropped then, and other batches would go in their place.

KEYS
  schema                     string  names the partition
TOUCHES
  subscriber:{token}         hash    reads callback, ordered
  dead_letter:{bid}          list
  dead_letter:about:{bid}    hash
  dead_letters:index         zset
  dead_letters:index:{token} zset
  dead_letters:gauges:event  hash
  batch:{bid}                list
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  jobs:index:{q}             set
  jobs:instant:{q}           list
ARGV
  client                     who asks: the token of their subscriber; empty: root
  bid…                       the letters, in the order in which they are to be queued
RETURNS
  a list with, for each letter, {subscriber, events}; or why it is none, 'dead_letter_not_found' (another client's too), or
  stays one, 'subscriber_not_found'
]]
-- include: now
-- include: jobs
-- include: batches
-- include: dead_letters

local client = ARGV[1]
local FIRST_LETTER = 2

local function revive(bid, token, ordered)
  local letter = key.dead_letter(bid)
  local events = redis.call('LLEN', letter) - HEAD
  local job = batch_job(bid)
  redis.call('LSET', letter, 1, now)
  redis.call('LSET', letter, 2, 0)
  redis.call('RENAME', letter, key.batch(bid))
  unlist_dead_letter(bid, token, events)
  redis.call('ZADD', key.batches_index(), index_score(), bid)
  redis.call('ZADD', key.batches_queued(token), queue_score(token, ordered), bid)
  redis.call('HINCRBY', key.gauge_batches(), token, 1)
  redis.call('HINCRBY', key.gauge_events(), token, events)
  redis.call('SADD', key.jobs_index('main'), job)
  make_instant('main', job)
  return { token, events }
end

local outcomes = {}
for i = FIRST_LETTER, #ARGV do
  local bid = ARGV[i]
  local token = redis.call('LINDEX', key.dead_letter(bid), 0)
  if not token or (client ~= '' and client ~= token) then
    forget_entry(bid, client)
    outcomes[#outcomes + 1] = 'dead_letter_not_found'
  else
    local callback, ordered = unpack(redis.call('HMGET', key.subscriber(token), 'callback', 'ordered'))
    outcomes[#outcomes + 1] = callback and revive(bid, token, ordered) or 'subscriber_not_found'
  end
end
announce()
return outcomes
