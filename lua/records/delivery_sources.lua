--[[
Delivery sources: the indexes and logs in which a listing finds batches. Each gives its newest batch first
(merging.lua).

A batch that has ended is listed by the time of its end, any other batch by the time of its creation. The `bounds`
of a listing limit these times: `since_ms` (included), `until_ms` (not included; or math.huge), and the place (the time
by which it is listed) and the id of the entry after which a page begins, if any. A function here returns nothing
if its source has nothing within the bounds.
]]
local bulk = include('store/bulk')
local delivery_log = include('records/delivery_log')
local delivery_states = include('records/delivery_states')
local merging = include('records/merging')
local delivery_sources = {}

-- A source is an index or a log in which a listing finds batches. The first read of a source fetches MIN_CHUNK entries,
-- because a page takes only a few entries from most sources. Each later read of the same source fetches more, up to
-- MAX_CHUNK.
local MIN_CHUNK, MAX_CHUNK = 4, 128

-- A page of a listing begins after a time and an id, which the page before has returned. To make the next page begin
-- with the entry `x`, a listing returns the id `x-`: ids are in descending order, so `x-` comes directly before `x`.
local JUST_BEFORE = '-'

-- Creates the working state of one listing. A listing of one state skips the batches in other states, which can be
-- many. So it looks at `max_looked` batches at most. After that, the function that reads the next batch (`read_index`)
-- returns `{ place, id, stopped = true }` instead, and the next page begins after this time and id. `sources` is the
-- number of indexes and logs that the listing has searched, even those without entries; the caller's rate limit is
-- charged for them.
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

-- Returns the bounds of a listing as scores of an index (a sorted set of batches): the highest and the lowest. The
-- scores of an index are times, in ms if `scale` is 1 and in µs if it is 1000. The scores are formatted once for all
-- indexes with the same scale.
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

-- Returns an iterator over the entries of an index, which is a sorted set of the ids of batches. The function `read`
-- returns the entry for an id, or nothing if the batch must not be listed.
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

-- Returns a source from which a listing takes batches: the entries of the sorted set `index` that are within the bounds
-- of the listing. Returns nothing if there are none. The scores of `index` are times, in ms if `scale` is 1 and in µs
-- if it is 1000. A listing may have a source for each subscriber. So all sources share the function `open_index`,
-- instead of having a closure each.
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

-- Returns a source from which a listing takes batches: those in the sorted set `index`. The scores of `index` are
-- times, in ms if `scale` is 1 and in µs if it is 1000. If `state` is given, only batches in that state are listed.
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

-- Adds to `sources`, for each batch in `bids`, a source that has only this batch. A listing goes back in time. It reads
-- the batch when it comes to the time `place`, at which the batch was created, and shows the batch only if its state is
-- `state`. Batches outside the bounds of the listing are left out.
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

-- Searches a log for the newest record that is not newer than the time `place` (ms). Returns the position of the record
-- in the log, and its time. Returns nothing if all records are newer.
--
-- The search halves the range at each step, except the first. Subscribers of the same topics have similar logs, so the
-- first step looks where the search in the previous log has ended: at the same fraction of the log's length
-- (`listing.part`).
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

-- Returns an iterator over the records of one delivery log, newest first. It starts at `source.position`, or at the end
-- of the log. It returns only records within the bounds of the listing.
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

-- Returns a source from which a listing takes batches: the records of a delivery log that are within the bounds of the
-- listing. If `newest` (ms) is given, newer records are left out. Returns nothing if there are no such records. Looks
-- up only the time of the first record. The records themselves are read when the listing comes to that time, because a
-- bus can have thousands of logs, and a listing never reaches most of them.
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
