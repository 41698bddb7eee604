--[[
Batches: a batch is a list of the subscriber's token, the time of creation (ms), the number of attempts, and then the
events.
]]
local calls = include('store/calls')
local open_batches = include('delivering/open_batches')
local batches = {}

-- Number of items at the start of a batch's list that are not events.
batches.HEADER = 3

-- Returns the start of a batch's list: token, time of creation (ms), number of attempts. Returns nothing if the list
-- does not exist, or does not begin like a batch.
function batches.read_header(list)
  local token, created_ms, attempts = unpack(calls.read_or_nil('LRANGE', list, 0, batches.HEADER - 1) or {})
  if not (tostring(created_ms):match('^%d+$') and tostring(attempts):match('^%d+$')) then return end
  if token ~= '' then return token, created_ms, attempts end
end

-- Returns the number of events in the batch `bid`: less than 0 if it does not exist.
function batches.count_events(call, bid)
  return redis.call('LLEN', call.keys.batch(bid)) - batches.HEADER
end

-- True if the list `tokens` has the subscriber's `token`, or is empty: an empty list stands for all subscribers.
function batches.is_of(tokens, token)
  for _, each in ipairs(tokens) do
    if each == token then return true end
  end
  return #tokens == 0
end

-- Returns the score that a batch opened by this call gets in `batches:index`: the time at which its events were
-- accepted, in ms with three decimals.
function batches.index_score(call)
  return string.format('%d.%03d', call.accepted_ms, call.accepted_us % 1000)
end

-- Returns the score that a batch opened by this call gets in its subscriber's index: the time (µs) at which its events
-- were accepted. If `ordered` is '1', the score is above all others in the index, even if Redis's clock was set back.
-- The score is a whole number, because a fraction makes it slower to add and remove a batch: 14 µs instead of 5.
function batches.queue_score(call, token, ordered)
  if ordered ~= '1' then return call.accepted_us end
  local last = redis.call('ZRANGE', call.keys.batches_queued(token), 0, 0, 'REV', 'WITHSCORES')[2]
  return math.max(call.accepted_us, (tonumber(last) or 0) + 1)
end

-- Subtracts batches and events from a subscriber's gauges, which count its queued batches and their events. A
-- subscriber without batches has no field in the gauges.
function batches.count_out(call, token, batch_count, event_count)
  if redis.call('HINCRBY', call.keys.gauge_batches(), token, -batch_count) <= 0 then
    redis.call('HDEL', call.keys.gauge_batches(), token)
    redis.call('HDEL', call.keys.gauge_events(), token)
  else
    -- Not `-event_count`, which is `-0` for a batch without events: Redis refuses `-0`. A Ruby Routemaster may have
    -- stored such a batch.
    redis.call('HINCRBY', call.keys.gauge_events(), token, 0 - event_count)
  end
end

-- Removes the first `count` events of a batch. The batch must have more than `count` events.
function batches.drop_first(call, bid, token, count)
  if count == 0 then return end
  local batch = call.keys.batch(bid)
  local _, created_ms, attempts = unpack(redis.call('LRANGE', batch, 0, batches.HEADER - 1))
  redis.call('LTRIM', batch, batches.HEADER + count, -1)
  redis.call('LPUSH', batch, attempts, created_ms, token)
  redis.call('HINCRBY', call.keys.gauge_events(), token, -count)
end

-- Adds a batch that will be tried again to the index `batches_retrying`, unless the batch is no longer in the
-- subscriber's index `batches_queued`.
function batches.note_retry(call, token, bid)
  local score = redis.call('ZSCORE', call.keys.batches_queued(token), bid)
  if score then redis.call('ZADD', call.keys.batches_retrying(token), score, bid) end
end

-- Adds a closed batch to the indexes and gauges (the numbers of batches and events) of its subscriber, as the newest
-- batch. The caller stores the list and the job of the batch.
function batches.enlist(call, bid, token, ordered, events)
  local keys = call.keys
  redis.call('ZADD', keys.batches_index(), batches.index_score(call), bid)
  redis.call('ZADD', keys.batches_queued(token), batches.queue_score(call, token, ordered), bid)
  redis.call('HINCRBY', keys.gauge_batches(), token, 1)
  redis.call('HINCRBY', keys.gauge_events(), token, events)
end

-- Removes a batch from all indexes, the open batches and the gauges. Its job stays.
function batches.unlist(call, bid, token, events)
  redis.call('ZREM', call.keys.batches_index(), bid)
  redis.call('ZREM', call.keys.batches_queued(token), bid)
  redis.call('ZREM', call.keys.batches_retrying(token), bid)
  if open_batches.bid_of(call, token) == bid then open_batches.remove(call, token, bid) end
  batches.count_out(call, token, 1, events)
end

-- Deletes the list of a batch or dead letter, the history of its attempts, and the time at which it was closed. Returns
-- the subscriber's token and the number of events, or nothing if the list no longer exists.
function batches.delete_list(call, list, bid)
  local token = redis.call('LINDEX', list, 0)
  if not token then return end
  local events = redis.call('LLEN', list) - batches.HEADER
  redis.call('UNLINK', list, call.keys.attempts(bid))
  open_batches.forget_closed(call, { bid })
  return token, events
end

-- Deletes a batch and every reference to it except its job. Returns the number of its events. If the batch no longer
-- exists, only deletes its entry in `batches:index`, and returns 0.
function batches.delete(call, bid)
  local token, events = batches.delete_list(call, call.keys.batch(bid), bid)
  if token then
    batches.unlist(call, bid, token, events)
  else
    redis.call('ZREM', call.keys.batches_index(), bid)
  end
  return events or 0
end

return batches
