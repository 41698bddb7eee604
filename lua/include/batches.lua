-- Batches: a list of the subscriber's token, the time of creation, the number of attempts, then the events.
local HEAD = 3

-- Where a batch that is opened now stands among all: at its time in ms, to the microsecond.
local function index_score()
  return now + time[2] % 1000 / 1000
end

-- Where a batch that comes last stands in its subscriber's queue: at its time in µs, as its subscriber may come to ask for
-- order; and for an `ordered` one (that field of its hash) behind all others too, as Redis's clock can be set back. (In a
-- short queue Redis goes through the places of the others, and a fraction is text to it: to enter and remove a batch among a
-- hundred takes 5 µs by whole numbers and 14 µs by fractions.)
local function queue_score(token, ordered)
  local at = now * 1000 + time[2] % 1000
  if ordered ~= '1' then return at end
  local last = tonumber(redis.call('ZRANGE', key.batches_queued(token), 0, 0, 'REV', 'WITHSCORES')[2]) or 0
  return math.max(at, last + 1)
end

local function count_out(token, batches, events)
  if redis.call('HINCRBY', key.gauge_batches(), token, -batches) <= 0 then
    redis.call('HDEL', key.gauge_batches(), token)
    redis.call('HDEL', key.gauge_events(), token)
  else
    redis.call('HINCRBY', key.gauge_events(), token, -events)
  end
end

-- Takes a batch out of its subscriber's queue: every reference to it but its job.
local function unlist_batch(bid, token, events)
  redis.call('ZREM', key.batches_index(), bid)
  redis.call('ZREM', key.batches_queued(token), bid)
  shut(token, bid)
  count_out(token, 1, events)
end

-- Deletes the list of a batch or dead letter, and the history of its attempts. Returns its subscriber's token and how many
-- events it held, or nothing: it is not an error if there is none any more.
local function delete_list(list, bid)
  local token = redis.call('LINDEX', list, 0)
  if not token then return end
  local events = redis.call('LLEN', list) - HEAD
  redis.call('UNLINK', list, key.attempts(bid))
  return token, events
end

-- Deletes a batch and every reference to it but its job. Returns what delete_list does.
local function delete_batch(bid)
  local token, events = delete_list(key.batch(bid), bid)
  if token then
    unlist_batch(bid, token, events)
  else
    redis.call('ZREM', key.batches_index(), bid)
  end
  return token, events
end
