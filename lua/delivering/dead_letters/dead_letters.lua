--[[
Dead letters: batches that are not tried any more. A dead letter is kept whole, with its reason and the history of its
attempts.
]]
local batches = include('delivering/batches')
local dead_letters = {}

-- Turns a batch into a dead letter. The caller deletes the job of the batch. Returns the number of its events, or
-- nothing if the batch no longer exists.
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

-- Removes every reference to a dead letter: its reason, its index entries and its count in `dead_letters_events`. The
-- list with its events stays.
function dead_letters.unlist(call, bid, token, events)
  local keys = call.keys
  redis.call('DEL', keys.dead_letter_about(bid))
  redis.call('ZREM', keys.dead_letters_index(), bid)
  redis.call('ZREM', keys.dead_letters_of(token), bid)
  -- Not `-events`, which is `-0` for a batch without events: Redis refuses `-0`. A Ruby Routemaster may have stored
  -- such a batch.
  if redis.call('HINCRBY', keys.dead_letters_events(), token, 0 - events) <= 0 then
    redis.call('HDEL', keys.dead_letters_events(), token)
  end
end

-- Removes `bid` from the index of the subscriber's dead letters, if it is there, so that later calls do not find it
-- again. The caller has found that this subscriber has no such dead letter. Does nothing if `token` is nil, because the
-- subscriber is then unknown.
function dead_letters.forget_entry(call, bid, token)
  if token then redis.call('ZREM', call.keys.dead_letters_of(token), bid) end
end

-- Deletes a dead letter and every reference to it. Returns true if the dead letter existed.
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
