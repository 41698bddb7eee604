--[[
Delivery sources: the indexes and logs in which a listing finds batches. Each source gives its newest batch first
(merging.lua).

A batch that has ended is listed by the time of its end, any other batch by the time of its creation. The `bounds` of a
listing limit these times: `since_ms` (included), and `until_ms` (not included; or math.huge). For each page but the
first, the bounds also have the `place` (the time by which an entry is listed) and the `id` after which the page begins.
A function here returns nothing if its source has nothing within the bounds.
]]
local calls = include('store/calls')
local delivery_log = include('records/delivery_log')
local delivery_states = include('records/delivery_states')
local many = include('store/many')
local merging = include('records/merging')
local delivery_sources = {}

-- A page of a listing needs only a few entries from most of the indexes and logs. So the first read of each index or
-- log fetches only MIN_CHUNK entries. Later reads fetch more, up to MAX_CHUNK.
local MIN_CHUNK, MAX_CHUNK = 4, 128

-- In a listing, larger ids come first. `x-` is larger than the id `x`, and no id lies between them. So a page that
-- begins after `x-` begins with `x`.
local JUST_BEFORE = '-'

-- Returns the time bounds of a listing as the highest and the lowest score of an index. The scores are times in ms if
-- `scale` is 1, and in µs if it is 1000.
local function score_range(bounds, scale)
  local form = scale == 1 and '%.3f' or '%.0f'
  local upper = bounds.until_ms < math.huge and '(' .. form:format(bounds.until_ms * scale) or '+inf'
  if bounds.id and bounds.place < bounds.until_ms then upper = form:format(bounds.place * scale) end
  return { upper = upper, lower = form:format(bounds.since_ms * scale) }
end

-- Creates the working state of one listing, which searches indexes (sorted sets) and delivery logs. Some fields:
--   state       the state of the batches to list; nil for any state
--   reason      why the dead letters to list have died; nil for any reason
--   max_looked  maximum batches that the listing looks at, wanted or not. Then it stops, and its last entry is
--               `{ place, id, stopped = true }`: the next page begins after this place and id
--   looked      how many batches it has looked at
--   sources     how many indexes and logs it has searched
--   skipped     the key of a dead letter or an index that the listing passes over, because another program has written
--               this key
function delivery_sources.begin(call, bounds, wanted, max_looked)
  return {
    call = call, bounds = bounds, state = wanted.state, reason = wanted.reason, max_looked = max_looked, looked = 0,
    sources = 0, part = 1, seen = delivery_states.begin(),
    ranges = { [1] = score_range(bounds, 1), [1000] = score_range(bounds, 1000) },
    newest_record = math.min(bounds.place or math.huge, bounds.until_ms),
    oldest_record = math.max(bounds.since_ms, call.now_ms - delivery_log.KEPT_MS),
  }
end

local function is_after(bounds, place, id)
  return not bounds.id or merging.is_before(bounds.place, bounds.id, place, id)
end

local function read_batch(listing, bid)
  local entry = delivery_states.batch(listing.call, listing.seen, bid)
  if entry and (not listing.state or entry.state == listing.state) then return entry end
end

local function read_dead_letter(listing, bid)
  local entry, unreadable = delivery_states.dead_letter(listing.call, bid, listing.reason)
  listing.skipped = listing.skipped or unreadable
  return entry
end

local function read_index(source)
  local listing, scale, range = source.listing, source.scale, source.listing.ranges[source.scale]
  local chunk, at, offset, size = {}, 1, 0, MIN_CHUNK
  return function()
    while true do
      if at > #chunk then
        chunk = redis.call(
          'ZRANGE', source.index, range.upper, range.lower, 'BYSCORE', 'REV', 'LIMIT', offset, size, 'WITHSCORES'
        )
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
        local entry = source.read(listing, id)
        if entry then
          entry.place = place
          return entry
        end
      end
    end
  end
end

-- Returns the source (merging.lua) with the entries of the sorted set `index`, or nothing if it has none within the
-- listing's bounds. Scores are times, in ms if `scale` is 1 and in µs if it is 1000. The function `read` returns the
-- entry for an id, or nothing if the entry must not be listed.
local function index_source(listing, index, scale, read)
  listing.sources = listing.sources + 1
  local range = listing.ranges[scale]
  local newest =
    calls.read_or_nil('ZRANGE', index, range.upper, range.lower, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  if not newest then listing.skipped = listing.skipped or index end
  local first = newest and newest[2]
  if not first then return end
  -- All sources share one function `open`: a closure for each source would make a listing of 5,000 subscribers a fifth
  -- slower.
  return { place = first / scale, open = read_index, listing = listing, index = index, scale = scale, read = read }
end

function delivery_sources.batches(listing, index, scale)
  return index_source(listing, index, scale, read_batch)
end

function delivery_sources.dead_letters(listing, index)
  return index_source(listing, index, 1, read_dead_letter)
end

local function read_single(source)
  local entry = read_batch(source.listing, source.id)
  if entry then entry.place = source.place end
  return function()
    local only = entry
    entry = nil
    return only
  end
end

-- Adds each batch in `bids` that was created within the listing's bounds to `sources`, as a source of its own. The
-- batch itself is read only if the page of the listing gets that far.
function delivery_sources.add_singles(listing, sources, bids)
  local bounds, index = listing.bounds, listing.call.keys.batches_index()
  listing.sources = listing.sources + #bids
  for from = 1, #bids, many.MAX_VALUES do
    local chunk = { unpack(bids, from, math.min(from + many.MAX_VALUES - 1, #bids)) }
    for i, score in ipairs(redis.call('ZMSCORE', index, unpack(chunk))) do
      local id, place = chunk[i], tonumber(score or nil)
      if place and place >= bounds.since_ms and place < bounds.until_ms and is_after(bounds, place, id) then
        sources[#sources + 1] = { place = place, open = read_single, listing = listing, id = id }
      end
    end
  end
end

-- Returns an iterator over the first `length` items of a list, the last of them first.
function delivery_sources.backwards(list, length)
  local chunk, size = {}, 2 * MIN_CHUNK
  return function()
    if #chunk == 0 and length > 0 then
      local first = math.max(0, length - size)
      chunk = redis.call('LRANGE', list, first, length - 1)
      length, size = first, math.min(2 * MAX_CHUNK, 4 * size)
    end
    return table.remove(chunk)
  end
end

-- Returns the time (ms) of the record at a position of a log, where 1 is the oldest. Also returns the time of the next
-- newer record, or infinity if there is none.
local function times_at(list, position)
  local record, _, newer = unpack(redis.call('LRANGE', list, 2 * position - 1, 2 * position + 1))
  return delivery_log.time_of(record), newer and delivery_log.time_of(newer) or math.huge
end

-- Finds, by a binary search, the newest record of a log at or before the time `place` (ms). Returns its position and
-- its time, or nothing if all records are newer. The search begins where the search in the previous log ended, because
-- logs are often similar. `listing.part` has this position, as a part (0 to 1) of the log's length.
local function position_at(listing, list, place)
  local length = (calls.read_or_nil('LLEN', list) or 0) / 2
  local low, high, at = 1, length, math.floor(listing.part * length)
  while low <= high do
    at = math.max(low, math.min(high, at))
    local its_place, newer_place = times_at(list, at)
    if its_place <= place and newer_place > place then
      listing.part = at / length
      return at, its_place
    end
    if its_place > place then high = at - 1 else low = at + 1 end
    at = math.floor((low + high) / 2)
  end
  listing.part = 0
end

local function read_log(source)
  local listing, list = source.listing, source.list
  local bounds, length = listing.bounds, source.position and 2 * source.position or redis.call('LLEN', list)
  local next_item = delivery_sources.backwards(list, length)
  return function()
    while true do
      local record, id = next_item(), next_item()
      local place = record and delivery_log.time_of(record)
      if not place or place < listing.oldest_record then return end
      if place < bounds.until_ms and is_after(bounds, place, id) then
        return { id = id, place = place, subscriber = source.token, state = source.ending, record = record }
      end
    end
  end
end

-- Returns the source (merging.lua) with the records of one delivery log, or nothing if it has none within the listing's
-- bounds. Leaves out records that are newer than `newest` (ms). A bus can have thousands of logs, so the records of a
-- log are read only when the page gets that far.
function delivery_sources.log(listing, ending, token, newest)
  local list, position, place = delivery_log.list_of(listing.call, ending, token), nil, nil
  listing.sources = listing.sources + 1
  newest = newest or listing.newest_record
  if newest < math.huge then
    position, place = position_at(listing, list, newest)
  else
    local record = calls.read_or_nil('LINDEX', list, -1)
    place = record and delivery_log.time_of(record)
  end
  if not place or place < listing.oldest_record then return end
  return {
    place = place, open = read_log, listing = listing, list = list, ending = ending, token = token, position = position,
  }
end

return delivery_sources
