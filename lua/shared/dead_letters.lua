--[[
Dead letters: batches that are not tried any more, kept whole with the reason and the history of their
attempts.
]]
local batches = include('batches')
local dead_letters = {}

-- Makes a dead letter of a batch; the caller forgets its job. Returns how many events it holds, or nothing if
-- the batch no longer exists.
function dead_letters.bury(call, bid, reason)
  local keys = call.keys
  local token = redis.call('LINDEX', keys.batch(bid), 0)
  if not token then return end
  local events = redis.call('LLEN', keys.batch(bid)) - batches.HEADER
  redis.call('RENAME', keys.batch(bid), keys.dead_letter(bid))
  batches.unlist(call, bid, token, events)
  redis.call('HSET', keys.dead_letter_about(bid), 'reason', reason, 'died_at', call.now_ms)
  redis.call('ZADD', keys.dead_letters_index(), call.now_ms, bid)
  redis.call('ZADD', keys.dead_letters_of(token), call.now_ms, bid)
  redis.call('HINCRBY', keys.dead_letters_events(), token, events)
  return events
end

-- Takes a dead letter out of its subscriber's: every reference to it, not the list itself.
function dead_letters.unlist(call, bid, token, events)
  local keys = call.keys
  redis.call('DEL', keys.dead_letter_about(bid))
  redis.call('ZREM', keys.dead_letters_index(), bid)
  redis.call('ZREM', keys.dead_letters_of(token), bid)
  if redis.call('HINCRBY', keys.dead_letters_events(), token, -events) <= 0 then
    redis.call('HDEL', keys.dead_letters_events(), token)
  end
end

-- Removes an entry of the subscriber's index that names no letter of its own: it would come again in every
-- slice of the index that is read.
function dead_letters.forget_entry(call, bid, token)
  if token then redis.call('ZREM', call.keys.dead_letters_of(token), bid) end
end

-- True if there was one.
function dead_letters.delete(call, bid)
  local token, events = batches.delete_list(call, call.keys.dead_letter(bid), bid)
  if token then
    dead_letters.unlist(call, bid, token, events)
  else
    redis.call('ZREM', call.keys.dead_letters_index(), bid)
  end
  return token and true or false
end

return dead_letters
