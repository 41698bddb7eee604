--[[
Delivery sources: the indexes and logs in which a listing finds batches. Each source gives its newest batch first
(merging.lua).

A batch that has ended is listed by the time of its end, any other batch by the time of its creation. The `bounds` of a
listing limit these times: `since_ms` (included), and `until_ms` (not included; or math.huge). For each page but the
first, `after_ms` and `after_id` are the time and the id of the entry after which the page begins. A function here
returns nothing if its source has nothing within the bounds.

A listing may have thousands of sources, so making a source takes only a few commands. A source reads more when the
listing comes to the newest batch of the source.
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

-- Of entries with the same time, a listing shows larger ids first. A page begins after a given id. To begin with the id
-- `x` itself, a page begins after `x-`, which is larger than `x`. No id lies between the two.
local JUST_BEFORE = '-'

-- Returns the time bounds of a listing as the highest and the lowest score of an index. The scores are times in ms if
-- `scale` is 1, and in µs if it is 1000.
local function score_range(bounds, scale)
  local form = scale == 1 and '%.3f' or '%.0f'
  local upper = bounds.until_ms < math.huge and '(' .. form:format(bounds.until_ms * scale) or '+inf'
  if bounds.after_id and bounds.after_ms < bounds.until_ms then upper = form:format(bounds.after_ms * scale) end
  return { upper = upper, lower = form:format(bounds.since_ms * scale) }
end

-- Creates the working state of one listing, which searches indexes (sorted sets) and delivery logs. Some fields:
--   state       only batches in this state are listed; nil for any state
--   reason      only dead letters that died for this reason are listed; nil for any reason
--   max_looked  how many batches the listing may look at, listed or not. A listing that stops at this number ends with
--               the additional entry `{ at_ms, id, stopped = true }`: the next page begins after this time and id
--   looked      how many batches the listing has looked at
--   sources     how many indexes, logs, single batches (`add_singles`) and subscribers it has searched
--   newest_ms   the latest time within the bounds; math.huge if they have none
--   oldest_ms   the earliest time that a record within the bounds can have
--   skipped     the key of an index, log, trail or dead letter that was left out because of its type: another program
--               has written it
function delivery_sources.begin(call, bounds, wanted, max_looked)
  return {
    call = call, bounds = bounds, state = wanted.state, reason = wanted.reason, max_looked = max_looked, looked = 0,
    sources = 0, seen = delivery_states.begin(),
    ranges = { [1] = score_range(bounds, 1), [1000] = score_range(bounds, 1000) },
    newest_ms = math.min(bounds.after_ms or math.huge, bounds.until_ms),
    oldest_ms = math.max(bounds.since_ms, call.now_ms - delivery_log.KEPT_MS),
  }
end

local function is_after(bounds, at_ms, id)
  return not bounds.after_id or merging.is_before(bounds.after_ms, bounds.after_id, at_ms, id)
end

local function batch_of(listing, bid)
  local entry = delivery_states.batch(listing.call, listing.seen, bid)
  if entry and (not listing.state or entry.state == listing.state) then return entry end
end

local function dead_letter_of(listing, bid)
  local entry, unreadable = delivery_states.dead_letter(listing.call, bid, listing.reason)
  listing.skipped = listing.skipped or unreadable
  return entry
end

-- Returns an iterator over the ids in an index, the newest first, with their times (ms).
local function members(index, range, scale)
  local chunk, at, offset, size = {}, 1, 0, MIN_CHUNK
  return function()
    if at > #chunk then
      chunk = redis.call(
        'ZRANGE', index, range.upper, range.lower, 'BYSCORE', 'REV', 'LIMIT', offset, size, 'WITHSCORES'
      )
      at, offset, size = 1, offset + size, math.min(MAX_CHUNK, 4 * size)
    end
    local id, score = chunk[at], chunk[at + 1]
    at = at + 2
    return id, score and score / scale
  end
end

local function read_index(source)
  local listing, scale = source.listing, source.scale
  source.members = source.members or members(source.index, listing.ranges[scale], scale)
  for id, at_ms in source.members do
    if is_after(listing.bounds, at_ms, id) then
      if listing.looked >= listing.max_looked then return { at_ms = at_ms, id = id .. JUST_BEFORE, stopped = true } end
      listing.looked = listing.looked + 1
      local entry = source.entry_of(listing, id)
      if entry then
        entry.at_ms = at_ms
        return entry
      end
    end
  end
end

-- Returns the source (merging.lua) with the entries of the sorted set `index`. Scores are times, in ms if `scale` is 1
-- and in µs if it is 1000. The function `entry_of` returns the entry for an id, or nothing if it must not be listed.
local function index_source(listing, index, scale, entry_of)
  listing.sources = listing.sources + 1
  local range = listing.ranges[scale]
  local newest =
    calls.read_or_nil('ZRANGE', index, range.upper, range.lower, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  if not newest then listing.skipped = listing.skipped or index end
  if not newest or not newest[2] then return end
  return {
    at_ms = newest[2] / scale, read = read_index, listing = listing, index = index, scale = scale, entry_of = entry_of,
  }
end

function delivery_sources.batches(listing, index, scale)
  return index_source(listing, index, scale, batch_of)
end

function delivery_sources.dead_letters(listing, index)
  return index_source(listing, index, 1, dead_letter_of)
end

local function read_single(source)
  local id = source.id
  source.id = nil
  local entry = id and batch_of(source.listing, id)
  if entry then entry.at_ms = source.at_ms end
  return entry
end

-- Adds the batches `bids` to a merge, each as a source of its own. Leaves out those that were not created within the
-- listing's bounds.
function delivery_sources.add_singles(listing, merge, bids)
  local bounds, index = listing.bounds, listing.call.keys.batches_index()
  listing.sources = listing.sources + #bids
  for from = 1, #bids, many.MAX_VALUES do
    local chunk = { unpack(bids, from, math.min(from + many.MAX_VALUES - 1, #bids)) }
    for i, score in ipairs(redis.call('ZMSCORE', index, unpack(chunk))) do
      local id, at_ms = chunk[i], tonumber(score or nil)
      if at_ms and at_ms >= bounds.since_ms and at_ms < bounds.until_ms and is_after(bounds, at_ms, id) then
        merging.add(merge, { at_ms = at_ms, read = read_single, listing = listing, id = id })
      end
    end
  end
end

-- Returns an iterator over the first `length` items of a list, from the last of these items back to the first.
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

local function read_log(source)
  local listing = source.listing
  source.next_item = source.next_item or delivery_sources.backwards(source.list, 2 * source.records)
  while true do
    local record, id = source.next_item(), source.next_item()
    local at_ms = record and delivery_log.time_of(record)
    if not at_ms or at_ms < listing.oldest_ms then return end
    if at_ms < listing.bounds.until_ms and is_after(listing.bounds, at_ms, id) then
      return { id = id, at_ms = at_ms, subscriber = source.token, state = source.ending, record = record }
    end
  end
end

-- Returns how many records of a log, or entries of a trail (delivery_trail.lua), are not newer than `at_ms`
-- (`delivery_log.count_until`). If another program has written the key `list` with another type, returns 0, and notes
-- the key in `listing.skipped`.
function delivery_sources.count_until(listing, list, items, at_ms)
  local count = calls.skip_wrong_type(delivery_log.count_until, list, items, at_ms)
  if not count then listing.skipped = listing.skipped or list end
  return count or 0
end

-- Returns the source (merging.lua) with the records of one delivery log that are not newer than `newest_ms`.
function delivery_sources.log(listing, ending, token, newest_ms)
  listing.sources = listing.sources + 1
  local list = delivery_log.list_of(listing.call, ending, token)
  local records = delivery_sources.count_until(listing, list, 2, newest_ms)
  if records == 0 then return end
  local at_ms = delivery_log.time_of(redis.call('LINDEX', list, 2 * records - 1))
  if at_ms < listing.oldest_ms then return end
  return {
    at_ms = at_ms, read = read_log, listing = listing, list = list, records = records, ending = ending, token = token,
  }
end

return delivery_sources
