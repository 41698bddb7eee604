#!lua flags=allow-oom
--[[
sweep_gauges: correct the gauges (stored numbers of batches and events) of one subscriber if they differ from its queue
or from its dead letters.

The events of more than MAX_LISTS batches are not counted, because that would block Redis for too long. So a wrong gauge
of events stays wrong until the queue is shorter.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local findings = include('maintenance/findings')

-- If a subscriber's queue has more batches than this, the events in them are not counted. The same maximum holds for
-- its dead letters. Redis needs about 11 ms to count the events of 10,000 batches.
local MAX_LISTS = 10000

-- Returns the number of events in all batches (or dead letters) of an index, a sorted set of their UIDs. Returns
-- nothing if the index has more than MAX_LISTS. `list_of` gives the key in Redis of a batch (or dead letter).
local function count_events(index, list_of)
  if redis.call('ZCARD', index) > MAX_LISTS then return end
  local events = 0
  for _, bid in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    -- If another program has written the key with another type, LLEN fails, and the batch counts as empty.
    events = events + math.max(0, (calls.read_or_nil('LLEN', list_of(bid)) or 0) - batches.HEADER)
  end
  return events
end

-- Sets a gauge to `counted`. Does nothing if `counted` is missing, because there were too many batches to count.
local function correct(found, gauge, token, kind, counted)
  if not counted then return end
  local wanted = counted > 0 and string.format('%d', counted)
  if redis.call('HGET', gauge, token) == wanted then return end
  if wanted then
    redis.call('HSET', gauge, token, wanted)
  else
    redis.call('HDEL', gauge, token)
  end
  findings.add(found, kind, token)
end

return function(call, args)
  local keys, token, found = call.keys, args.token, {}
  if args.what == 'dead_letters' then
    local events = count_events(keys.dead_letters_of(token), keys.dead_letter)
    correct(found, keys.dead_letters_events(), token, 'dead_letters_miscounted', events)
  else
    local index = keys.batches_queued(token)
    correct(found, keys.gauge_events(), token, 'events_miscounted', count_events(index, keys.batch))
    correct(found, keys.gauge_batches(), token, 'batches_miscounted', redis.call('ZCARD', index))
  end
  return found
end
