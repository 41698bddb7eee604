--[[
Open batches: the open batch of a subscriber is the one that takes its new events.

The hash `batches:open` has an entry for each subscriber, so that publish reads the open batches of all
subscribers with one command. An entry is the UID of the batch. It is followed by the maximum number of
events, unless that is the default. As in the Ruby Routemaster, the UID is also in
`batches:current:{token}`.
]]
local jobs = include('jobs')
local open_batches = {}

local UID_LENGTH = 20
local DEFAULT_MAX_EVENTS = 100

-- Returns the maximum number of events in a batch, from the subscriber's setting. It is at least 1: a batch
-- with no room would be replaced by another one for ever.
function open_batches.max_events(setting)
  return math.max(1, tonumber(setting) or DEFAULT_MAX_EVENTS)
end

-- Returns the entry of a batch in `batches:open`.
function open_batches.entry(bid, max_events)
  return max_events == DEFAULT_MAX_EVENTS and bid or bid .. string.format('%d', max_events)
end

-- Returns the UID of the batch in an entry, and the maximum number of its events.
function open_batches.read_entry(entry)
  if #entry == UID_LENGTH then return entry, DEFAULT_MAX_EVENTS end
  return entry:sub(1, UID_LENGTH), tonumber(entry:sub(UID_LENGTH + 1))
end

-- Returns the UID of the subscriber's open batch; false if there is none.
function open_batches.bid_of(call, token)
  local entry = redis.call('HGET', call.keys.batches_open(), token)
  return entry and entry:sub(1, UID_LENGTH)
end

-- Closes a batch to new events. It is not an error if the batch is not open.
function open_batches.close(call, token, bid)
  if open_batches.bid_of(call, token) == bid then open_batches.close_open(call, token, bid) end
end

-- Closes a batch that the caller knows to be open.
function open_batches.close_open(call, token, bid)
  redis.call('HDEL', call.keys.batches_open(), token)
  redis.call('SREM', call.keys.batches_current(token), bid)
end

-- Closes a full batch and makes its job instant. If the job is not scheduled any more, because its deadline
-- has passed, the job does not change.
function open_batches.close_full(call, token, bid)
  open_batches.close(call, token, bid)
  local job = jobs.delivery_of(bid)
  if redis.call('ZREM', call.keys.jobs_scheduled('main'), job) == 1 then jobs.make_instant(call, 'main', job) end
end

return open_batches
