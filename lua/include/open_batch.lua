-- The open batch of a subscriber, into which its events go. It stands in `batches:open`, where publish finds those of all
-- subscribers in one command: its UID, followed by the most events that it may hold unless that is the default. Its UID is
-- in `batches:current:{token}` too, as Routemaster has it.

local UID_LENGTH = 20
local DEFAULT_MAX_EVENTS = 100

-- How many events a batch may hold. At least one: a batch that takes none would be opened again for ever.
local function most_events(max_events)
  return math.max(1, tonumber(max_events) or DEFAULT_MAX_EVENTS)
end

local function open_entry(bid, most)
  return most == DEFAULT_MAX_EVENTS and bid or bid .. string.format('%d', most)
end

-- The batch of an entry, and the most events that it may hold.
local function read_entry(entry)
  if #entry == UID_LENGTH then return entry, DEFAULT_MAX_EVENTS end
  return entry:sub(1, UID_LENGTH), tonumber(entry:sub(UID_LENGTH + 1))
end

-- The UID of the batch that is open, if there is one.
local function open_bid(token)
  local entry = redis.call('HGET', key.batches_open(), token)
  return entry and entry:sub(1, UID_LENGTH)
end

-- No event goes into the batch any more. It is not an error if none did.
local function shut(token, bid)
  if open_bid(token) ~= bid then return end
  redis.call('HDEL', key.batches_open(), token)
  redis.call('SREM', key.batches_current(token), bid)
end
