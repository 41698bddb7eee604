--[[
Leaving: ends a subscriber, its subscriptions, its drop notices and the records of its batches. Its batches and dead
letters stay: the caller has them deleted next. If the caller dies before that, the workers that acquire the jobs of
these batches find no subscriber, and delete one batch each. If the subscriber was paused, all of its jobs wait for the
end of the pause, and no worker could acquire them. So one of these jobs is put back into the queue here, and the end of
each job puts back the next.
]]
local delivery_log = include('records/delivery_log')
local join_tokens = include('flow/joins/join_tokens')
local joins = include('flow/joins/joins')
local topics = include('subscribing/topics')
local waiting = include('delivering/waiting')
local leaving = {}

-- Removes the subscriber `token`. Returns true if it existed.
function leaving.leave(call, token)
  local keys = call.keys
  local found = redis.call('SREM', keys.subscribers(), token) == 1
  topics.unsubscribe_from(call, token, redis.call('SMEMBERS', keys.subscriber_topics(token)))
  if join_tokens.is_join(token) then joins.forget(call, token) end
  redis.call('DEL', keys.subscriber(token), keys.batches_current(token))
  redis.call('HDEL', keys.batches_open(), token)
  redis.call('HDEL', keys.batches_room(), token)
  redis.call('DEL', keys.drop_notice(token), keys.drop_notice_carried(token), keys.dropped(token))
  for _, ending in ipairs(delivery_log.ENDINGS) do delivery_log.remove(call, ending, token) end
  waiting.make_instant(call, token, 1)
  return found
end

return leaving
