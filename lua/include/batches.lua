-- Batches: a list of the subscriber's token, the time of creation, the number of attempts, then the events.
local HEAD = 3

-- Deletes a batch and every reference to it but its job. Returns its subscriber's token and how many events it held,
-- or nothing: it is not an error if the batch no longer exists.
local function delete_batch(bid)
  local batch = key.batch(bid)
  local token = redis.call('LINDEX', batch, 0)
  if not token then
    redis.call('ZREM', key.batches_index(), bid)
    return
  end
  local events = redis.call('LLEN', batch) - HEAD
  redis.call('UNLINK', batch)
  redis.call('ZREM', key.batches_index(), bid)
  redis.call('ZREM', key.batches_queued(token), bid)
  redis.call('SREM', key.batches_current(token), bid)
  if redis.call('HINCRBY', key.gauge_batches(), token, -1) <= 0 then
    redis.call('HDEL', key.gauge_batches(), token)
    redis.call('HDEL', key.gauge_events(), token)
  else
    redis.call('HINCRBY', key.gauge_events(), token, -events)
  end
  return token, events
end
