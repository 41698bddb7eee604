#!lua flags=allow-oom
--[[
holdings: estimate how much memory the batches and dead letters of each subscriber take.

At most `samples` batches and as many dead letters of a subscriber are measured, chosen at random. The mean size of
their events is multiplied by the number of all events. (The mean size of a batch times the number of batches would be a
worse estimate, since long batches are few.) `batches` in the reply is the number of batches and dead letters.
]]
local batches = include('delivering/batches')

-- Bytes of Redis that a batch takes besides its list of events: for its job, and for its entries in indexes. 390 to 510
-- bytes were measured.
local OVERHEAD_BYTES = 400

-- Returns the number of batches (or dead letters) in a subscriber's index, and an estimate of their bytes. For the
-- estimate, `samples` of them are measured, and multiplied up to all events of the subscriber, whose number the hash
-- `gauge` has. `list_of` returns the key of a batch's list of events.
local function estimate(index, gauge, list_of, token, samples)
  local count, bytes, events = redis.call('ZCARD', index), 0, 0
  if count == 0 then return 0, 0 end
  for _, bid in ipairs(redis.call('ZRANDMEMBER', index, samples)) do
    local list = list_of(bid)
    bytes = bytes + (redis.call('MEMORY', 'USAGE', list) or 0)
    events = events + math.max(0, redis.call('LLEN', list) - batches.HEADER)
  end
  local all_events = tonumber(redis.call('HGET', gauge, token)) or 0
  return count, count * OVERHEAD_BYTES + all_events * bytes / math.max(1, events)
end

return function(call, args)
  local keys, held = call.keys, {}
  for i, token in ipairs(args.tokens) do
    local queued, queued_bytes =
      estimate(keys.batches_queued(token), keys.gauge_events(), keys.batch, token, args.samples)
    local buried, buried_bytes =
      estimate(keys.dead_letters_of(token), keys.dead_letters_events(), keys.dead_letter, token, args.samples)
    held[i] = { batches = queued + buried, bytes = math.ceil(queued_bytes + buried_bytes) }
  end
  return held
end
