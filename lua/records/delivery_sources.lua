--[[
Delivery sources: the indexes and logs in which a listing finds batches. Each source gives its newest batch first
(merging.lua).

A batch that has ended is listed by the time of its end, any other batch by the time of its creation. The `bounds` of a
listing limit these times: `since_ms` (included), and `until_ms` (not included; or math.huge). If a page before ended
with an entry, the bounds also have the place of this entry (the time by which it is listed) and its id. A function here
returns nothing if its source has nothing within the bounds.
]]
local bulk = include('store/bulk')
local delivery_log = include('records/delivery_log')
local delivery_states = include('records/delivery_states')
local merging = include('records/merging')
local delivery_sources = {}

-- A source is an index or a log in which a listing finds batches. The first read of a source fetches MIN_CHUNK entries,
-- because a page takes only a few entries from most sources. Later reads fetch more, up to MAX_CHUNK.
local MIN_CHUNK, MAX_CHUNK = 4, 128

-- Appended to the id of an entry, so that the next page of a listing begins with this entry. A page begins after the id
-- that it is given, and ids descend. Example: `x-` is larger than `x`, so the page after `x-` begins with `x`.
local JUST_BEFORE = '-'

-- Creates the working state of one listing. Some fields:
--   max_looked  maximum batches that the listing looks at, because it may have to skip very many in unwanted states. It
--               then ends with `{ place, id, stopped = true }`: the place after which the next page begins
--   looked      how many batches it has looked at
--   sources     how many indexes and logs it has searched
function delivery_sources.begin(call, bounds, max_looked)
  return {
    bounds = bounds, seen = delivery_states.begin(), looked = 0, max_looked = max_looked, sources = 0,
    ranges = {}, readers = {}, part = 1,
    newest_record = math.min(bounds.place or math.huge, bounds.until_ms),
    oldest_record = math.max(bounds.since_ms, call.now_ms - delivery_log.KEPT_MS),
  }
end

local function is_after(bounds, place, id)
  return not bounds.id or merging.is_before(bounds.place, bounds.id, place, id)
end

-- Returns the highest and the lowest score of an index within the bounds of a listing. Scores are times, in ms if
-- `scale` is 1 and in µs if it is 1000. They are formatted only once for each scale.
local function score_range(listing, scale)
  local range = listing.ranges[scale]
  if not range then
    local form, bounds = scale == 1 and '%.3f' or '%.0f', listing.bounds
    local upper = bounds.until_ms < math.huge and '(' .. form:format(bounds.until_ms * scale) or '+inf'
    if bounds.id and bounds.place < bounds.until_ms then upper = form:format(bounds.place * scale) end
    range = { upper = upper, lower = form:format(bounds.since_ms * scale) }
    listing.ranges[scale] = range
  end
  return range.upper, range.lower
end

-- Returns an iterator over the entries of an index, a sorted set of ids. The function `read` returns the entry for an
-- id, or nothing if the batch must not be listed.
local function read_index(listing, index, scale, read)
  local upper, lower = score_range(listing, scale)
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
        if listing.looked >= listing.max_looked then
          return { place = place, id = id .. JUST_BEFORE, stopped = true }
        end
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

local function open_index(source)
  return read_index(source.listing, source.index, source.scale, source.read)
end

-- Returns one of the sources that a listing merges: the entries of the sorted set `index` within the listing's bounds.
-- Returns nothing if there are none. Scores are times, in ms if `scale` is 1 and in µs if it is 1000. A listing can
-- have a source for each subscriber, so all sources share the function `open_index` instead of having a closure each.
local function index_source(listing, index, scale, read)
  listing.sources = listing.sources + 1
  local upper, lower = score_range(listing, scale)
  local first = redis.call('ZRANGE', index, upper, lower, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  if not first then return end
  return { place = first / scale, open = open_index, listing = listing, index = index, scale = scale, read = read }
end

-- Returns a function that reads a batch as an entry of the listing. If `state` is given, the function returns nothing
-- for batches in another state.
local function batch_reader(call, listing, state)
  local name = state or 'any'
  listing.readers[name] = listing.readers[name] or function(bid)
    local entry = delivery_states.batch(call, listing.seen, bid)
    return entry and (not state or entry.state == state) and entry or nil
  end
  return listing.readers[name]
end

-- Returns one of the sources that a listing merges: the batches in the sorted set `index`, or only those in `state`.
-- The scores of `index` are times, in ms if `scale` is 1 and in µs if it is 1000.
function delivery_sources.batches(call, listing, index, scale, state)
  return index_source(listing, index, scale, batch_reader(call, listing, state))
end

function delivery_sources.dead_letters(call, listing, index)
  return index_source(listing, index, 1, function(bid) return delivery_states.dead_letter(call, bid) end)
end

-- Returns an iterator over the single batch of a source that `add_singles` made. The iterator returns nothing if the
-- batch is not in the wanted state.
local function read_single(source)
  local is_read = false
  return function()
    if is_read then return end
    is_read = true
    local entry = delivery_states.batch(source.call, source.listing.seen, source.id)
    if not entry or entry.state ~= source.state then return end
    entry.place = source.place
    return entry
  end
end

-- Adds a source to `sources` for each batch in `bids` that was created within the listing's bounds. The source has only
-- this batch. The listing goes back in time, and reads the batch when it comes to the time at which the batch was
-- created (`place`). If the batch is not in `state` then, the listing leaves it out.
function delivery_sources.add_singles(call, listing, sources, bids, state)
  local bounds = listing.bounds
  listing.sources = listing.sources + #bids
  for from = 1, #bids, bulk.MAX_VALUES do
    local chunk = { unpack(bids, from, math.min(from + bulk.MAX_VALUES - 1, #bids)) }
    for i, score in ipairs(redis.call('ZMSCORE', call.keys.batches_index(), unpack(chunk))) do
      local id, place = chunk[i], tonumber(score or nil)
      if place and place >= bounds.since_ms and place < bounds.until_ms and is_after(bounds, place, id) then
        sources[#sources + 1] =
          { place = place, open = read_single, call = call, listing = listing, id = id, state = state }
      end
    end
  end
end

-- The position of the last item of a list. It is a text, because Redis takes longer to convert a Lua number.
local LAST = '-1'

-- Finds the newest record of a log that is not newer than the time `place` (ms), by a binary search. Returns the
-- position and the time of the record, or nothing if all are newer. The search begins where the search in the previous
-- log ended (`listing.part`, a fraction of the length), because subscribers of the same topics have similar logs.
local function position_at(listing, list, place)
  local length = redis.call('LLEN', list) / 2
  local low, low_place, high, at = 0, nil, length + 1, math.floor(listing.part * length)
  while high - low > 1 do
    at = math.max(low + 1, math.min(high - 1, at))
    local record, _, next_record = unpack(redis.call('LRANGE', list, 2 * at - 1, 2 * at + 1))
    local at_place, next_place = delivery_log.time_of(record), next_record and delivery_log.time_of(next_record)
    if at_place > place then
      high = at
    elseif next_place and next_place <= place then
      low, low_place = at + 1, next_place
    else
      low, low_place, high = at, at_place, at + 1
    end
    at = math.floor((low + high) / 2)
  end
  listing.part = low / math.max(1, length)
  if low > 0 then return low, low_place end
end

-- Returns an iterator over the records of one delivery log within the bounds of the listing, newest first. It starts at
-- `source.position`, or at the end of the log.
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
      local place = delivery_log.time_of(record)
      if place < listing.oldest_record then return end
      if place < bounds.until_ms and is_after(bounds, place, id) then
        return { id = id, place = place, subscriber = source.token, state = source.ending, record = record }
      end
    end
  end
end

-- Returns one of the sources that a listing merges: the records of a delivery log within the listing's bounds. If
-- `newest` (ms) is given, newer records are left out. Returns nothing if there are no records. Reads only the time of
-- the newest record: a bus can have thousands of logs, and of most logs a listing needs nothing else.
function delivery_sources.log(call, listing, ending, token, newest)
  local list, position = delivery_log.list_of(call, ending, token), nil
  listing.sources = listing.sources + 1
  local place
  newest = newest or listing.newest_record
  if newest < math.huge then
    position, place = position_at(listing, list, newest)
  else
    local record = redis.call('LINDEX', list, LAST)
    place = record and delivery_log.time_of(record)
  end
  if not place or place < listing.oldest_record then return end
  return {
    place = place, open = read_log, listing = listing, list = list, ending = ending, token = token, position = position,
  }
end

return delivery_sources
