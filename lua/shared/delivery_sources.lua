--[[
Delivery sources: the places where batches of one state are found, each the newest first (merging.lua).

A batch is listed by the time at which it ended, and until then by that of its creation. The `bounds` of a listing
limit these times: `since` (ms, included), `before` (ms, not included; or math.huge), and the place and id of the
entry after which a page begins, if any. A function here returns nothing if nothing is within the bounds.
]]
local delivery_log = include('delivery_log')
local delivery_states = include('delivery_states')
local merging = include('merging')
local delivery_sources = {}

-- How many members of an index, or records, one command reads: few at first, since most of many sources are read no
-- further.
local MIN_CHUNK, MAX_CHUNK = 4, 128
-- When the search for a time in a log is down to so many records, they are read at once.
local WINDOW = 12
-- After so many guesses the search halves what is left.
local MAX_GUESSES = 2

-- Returns the state of one listing. It looks at no more than `max_looked` batches, most of which may be in another
-- state than the wanted one. After that an iterator returns `{ place, id, stopped = true }`. `sources` counts the
-- sources that it looked for.
function delivery_sources.begin(call, bounds, max_looked)
  return {
    bounds = bounds, seen = delivery_states.begin(), looked = 0, max_looked = max_looked, sources = 0,
    newest_record = math.min(bounds.place or math.huge, bounds.before),
    oldest_record = math.max(bounds.since, call.now_ms - delivery_log.KEPT_MS),
  }
end

local function is_after(bounds, place, id)
  return not bounds.id or merging.is_before(bounds.place, bounds.id, place, id)
end

-- Returns the scores between which an index is read. `scale` is how many units of the score make a ms.
local function score_range(bounds, scale)
  local form = scale == 1 and '%.3f' or '%.0f'
  local upper = bounds.before < math.huge and '(' .. form:format(bounds.before * scale) or '+inf'
  if bounds.id and bounds.place < bounds.before then upper = form:format(bounds.place * scale) end
  return upper, form:format(bounds.since * scale)
end

-- Returns an iterator over an index: a sorted set of UIDs. `read` returns the entry of a UID, or nothing if it is not
-- there.
local function read_index(listing, index, scale, read)
  local upper, lower = score_range(listing.bounds, scale)
  local chunk, at, offset, size = {}, 1, 0, MIN_CHUNK
  return function()
    while true do
      if at > #chunk then
        chunk = redis.call('ZRANGE', index, upper, lower, 'BYSCORE', 'REV', 'LIMIT', offset, size, 'WITHSCORES')
        if #chunk == 0 then return end
        at, offset, size = 1, offset + size, math.min(MAX_CHUNK, 4 * size)
      end
      local id, place = chunk[at], chunk[at + 1] / scale
      at = at + 2
      if is_after(listing.bounds, place, id) then
        if listing.looked >= listing.max_looked then return { place = place, id = id, stopped = true } end
        listing.looked = listing.looked + 1
        local entry = read(id)
        if entry then
          entry.place = place
          return entry
        end
      end
    end
  end
end

local function index_source(listing, index, scale, read)
  listing.sources = listing.sources + 1
  local upper, lower = score_range(listing.bounds, scale)
  local first = redis.call('ZRANGE', index, upper, lower, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  if not first then return end
  return { place = first / scale, open = function() return read_index(listing, index, scale, read) end }
end

-- Returns a source of the batches in an index. If `state` is given, only those in that state are entries.
function delivery_sources.batches(call, listing, index, scale, state)
  return index_source(listing, index, scale, function(bid)
    local entry = delivery_states.batch(call, listing.seen, bid)
    return entry and (not state or entry.state == state) and entry or nil
  end)
end

function delivery_sources.dead_letters(call, listing, index)
  return index_source(listing, index, 1, function(bid) return delivery_states.dead_letter(call, bid) end)
end

-- Returns a source of one batch, if it is in this state. If `tokens` is given, it must also be a batch of one of
-- these subscribers, which are its keys.
function delivery_sources.single(call, listing, bid, state, tokens)
  local bounds = listing.bounds
  listing.sources = listing.sources + 1
  local place = tonumber(redis.call('ZSCORE', call.keys.batches_index(), bid))
  if not place or place < bounds.since or place >= bounds.before or not is_after(bounds, place, bid) then return end
  local function open()
    local is_read = false
    return function()
      if is_read then return end
      is_read = true
      local entry = delivery_states.batch(call, listing.seen, bid)
      if not entry or entry.state ~= state or tokens and not tokens[entry.subscriber] then return end
      entry.place = place
      return entry
    end
  end
  return { place = place, open = open }
end

-- The places of the first and the last record in a log; texts, because Redis takes long to print numbers of Lua.
local FIRST, LAST = '1', '-1'

-- Returns the time of the record at this place in a log.
local function time_at(list, index)
  local record = redis.call('LINDEX', list, index)
  return record and delivery_log.ended_at(record)
end

-- Returns the position of the newest record of a log that is not newer than `place`, and its time; nothing if all are.
-- The last record, of this time, is newer. Many batches end at an even rate, so the first steps guess where the
-- position is. The others halve what is left, since batches can also end in bursts.
local function position_at(list, last_place, place)
  local low, high, high_place, steps = 1, redis.call('LLEN', list) / 2, last_place, 0
  local low_place = time_at(list, FIRST)
  if low_place > place then return end
  while high - low > WINDOW do
    steps = steps + 1
    local part = steps <= MAX_GUESSES and (place - low_place) / (high_place - low_place) or 1 / 2
    local at = math.min(high - 1, math.max(low + 1, low + math.floor(part * (high - low))))
    local at_place = time_at(list, 2 * at - 1)
    if at_place > place then high, high_place = at, at_place else low, low_place = at, at_place end
  end
  local between = high - low > 1 and redis.call('LRANGE', list, 2 * low, 2 * high - 3) or {}
  for i = #between, 2, -2 do
    local at_place = delivery_log.ended_at(between[i])
    if at_place <= place then return low + i / 2, at_place end
  end
  return low, low_place
end

-- Returns an iterator over the records of a log.
local function read_log(source)
  local listing, list, items, at, size = source.listing, source.list, {}, 0, MIN_CHUNK
  local bounds, position = listing.bounds, source.position or redis.call('LLEN', list) / 2
  return function()
    while true do
      if at == 0 then
        if position == 0 then return end
        local first = math.max(1, position - size + 1)
        items = redis.call('LRANGE', list, 2 * first - 2, 2 * position - 1)
        at, position, size = #items, first - 1, math.min(MAX_CHUNK, 4 * size)
      end
      local id, record = items[at - 1], items[at]
      at = at - 2
      local place = delivery_log.ended_at(record)
      if place < listing.oldest_record then return end
      if place < bounds.before and is_after(bounds, place, id) then
        return { id = id, place = place, subscriber = source.token, state = source.ending, record = record }
      end
    end
  end
end

-- Returns a source of the records in a log. A bus can have thousands, most of which are not opened.
function delivery_sources.log(call, listing, ending, token)
  local list, position = delivery_log.list_of(call, ending, token), nil
  listing.sources = listing.sources + 1
  local place = time_at(list, LAST)
  if place and place > listing.newest_record then
    position, place = position_at(list, place, listing.newest_record)
  end
  if not place or place < listing.oldest_record then return end
  return {
    place = place, open = read_log, listing = listing, list = list, ending = ending, token = token, position = position,
  }
end

return delivery_sources
