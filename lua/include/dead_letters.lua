-- Dead letters: batches that are not tried any more, kept whole with the reason and the history of their attempts.

-- Makes a dead letter of a batch; its job is the caller's to forget. Returns its subscriber's token and how many events it
-- holds, or nothing if the batch no longer exists.
local function bury_batch(bid, reason)
  local token = redis.call('LINDEX', key.batch(bid), 0)
  if not token then return end
  local events = redis.call('LLEN', key.batch(bid)) - HEAD
  redis.call('RENAME', key.batch(bid), key.dead_letter(bid))
  unlist_batch(bid, token, events)
  redis.call('HSET', key.dead_letter_about(bid), 'reason', reason, 'died_at', now)
  redis.call('ZADD', key.dead_letters_index(), now, bid)
  redis.call('ZADD', key.dead_letters_of(token), now, bid)
  redis.call('HINCRBY', key.dead_letters_events(), token, events)
  return token, events
end

-- Takes a dead letter out of what its subscriber has of them: every reference to it, not the list itself.
local function unlist_dead_letter(bid, token, events)
  redis.call('DEL', key.dead_letter_about(bid))
  redis.call('ZREM', key.dead_letters_index(), bid)
  redis.call('ZREM', key.dead_letters_of(token), bid)
  if redis.call('HINCRBY', key.dead_letters_events(), token, -events) <= 0 then
    redis.call('HDEL', key.dead_letters_events(), token)
  end
end

-- An index entry that names no letter of this subscriber would come again in every slice that is read of the index.
local function forget_entry(bid, token)
  if token ~= '' then redis.call('ZREM', key.dead_letters_of(token), bid) end
end

-- Returns what delete_list does.
local function delete_dead_letter(bid)
  local token, events = delete_list(key.dead_letter(bid), bid)
  if token then
    unlist_dead_letter(bid, token, events)
  else
    redis.call('ZREM', key.dead_letters_index(), bid)
  end
  return token, events
end
