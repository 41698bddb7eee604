--[[
Batches: a list of the subscriber's token, the time of creation and the number of attempts, then the events.
]]
local open_batches = include('open_batches')
local batches = {}

-- How many items of the list come before its events.
batches.HEADER = 3

-- Where a batch that is opened now stands among all: at its time in ms, to the microsecond.
function batches.index_score(call)
  return call.now_us / 1000
end

-- Where a batch that comes last stands in its subscriber's queue: at its time in µs. For an `ordered`
-- subscriber (that field of its hash) behind all others too, as Redis's clock can be set back. Scores are
-- whole numbers, as a fraction is text to a short queue: to enter and remove a batch among a hundred takes
-- Redis 5 µs by whole numbers and 14 µs by fractions.
function batches.queue_score(call, token, ordered)
  if ordered ~= '1' then return call.now_us end
  local last = redis.call('ZRANGE', call.keys.batches_queued(token), 0, 0, 'REV', 'WITHSCORES')[2]
  return math.max(call.now_us, (tonumber(last) or 0) + 1)
end

-- Takes batches and events of a subscriber out of the gauges.
function batches.count_out(call, token, batch_count, event_count)
  if redis.call('HINCRBY', call.keys.gauge_batches(), token, -batch_count) <= 0 then
    redis.call('HDEL', call.keys.gauge_batches(), token)
    redis.call('HDEL', call.keys.gauge_events(), token)
  else
    redis.call('HINCRBY', call.keys.gauge_events(), token, -event_count)
  end
end

-- Takes a batch out of its subscriber's queue: every reference to it but its job.
function batches.unlist(call, bid, token, events)
  redis.call('ZREM', call.keys.batches_index(), bid)
  redis.call('ZREM', call.keys.batches_queued(token), bid)
  open_batches.close(call, token, bid)
  batches.count_out(call, token, 1, events)
end

-- Deletes the list of a batch or dead letter, and the history of its attempts. Returns its subscriber's token
-- and how many events it held, or nothing: it is not an error if there is none any more.
function batches.delete_list(call, list, bid)
  local token = redis.call('LINDEX', list, 0)
  if not token then return end
  local events = redis.call('LLEN', list) - batches.HEADER
  redis.call('UNLINK', list, call.keys.attempts(bid))
  return token, events
end

-- Deletes a batch and every reference to it but its job.
function batches.delete(call, bid)
  local token, events = batches.delete_list(call, call.keys.batch(bid), bid)
  if token then
    batches.unlist(call, bid, token, events)
  else
    redis.call('ZREM', call.keys.batches_index(), bid)
  end
end

return batches
