--[[
The open batch of a subscriber: the one that its events go into.

It stands in `batches:open`, where publish finds those of all subscribers by one command: its UID, followed by
how many events it may hold unless that is the default. Its UID is in `batches:current:{token}` too, as
Routemaster has it.
]]
local jobs = include('jobs')
local open_batches = {}

local UID_LENGTH = 20
local DEFAULT_MAX_EVENTS = 100

-- How many events a batch may hold. At least one: a batch that takes none would be opened again for ever.
function open_batches.max_events(setting)
  return math.max(1, tonumber(setting) or DEFAULT_MAX_EVENTS)
end

function open_batches.entry(bid, max_events)
  return max_events == DEFAULT_MAX_EVENTS and bid or bid .. string.format('%d', max_events)
end

-- Returns the batch of an entry, and how many events it may hold.
function open_batches.read_entry(entry)
  if #entry == UID_LENGTH then return entry, DEFAULT_MAX_EVENTS end
  return entry:sub(1, UID_LENGTH), tonumber(entry:sub(UID_LENGTH + 1))
end

-- The UID of the batch that is open, if there is one.
function open_batches.bid_of(call, token)
  local entry = redis.call('HGET', call.keys.batches_open(), token)
  return entry and entry:sub(1, UID_LENGTH)
end

-- Closes a batch: no event goes into it any more. It is not an error if it is not open.
function open_batches.close(call, token, bid)
  if open_batches.bid_of(call, token) == bid then open_batches.close_open(call, token, bid) end
end

-- Closes the batch that is known to be open.
function open_batches.close_open(call, token, bid)
  redis.call('HDEL', call.keys.batches_open(), token)
  redis.call('SREM', call.keys.batches_current(token), bid)
end

-- Closes a full batch. Its job becomes instant, unless its deadline has come and it is already.
function open_batches.close_full(call, token, bid)
  open_batches.close(call, token, bid)
  local job = jobs.delivery_of(bid)
  if redis.call('ZREM', call.keys.jobs_scheduled('main'), job) == 1 then jobs.make_instant(call, 'main', job) end
end

return open_batches
