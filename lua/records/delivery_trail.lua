--[[
Delivery trail: leads a listing of all subscribers through their logs, the newest record first. The listing reads only
logs that have records of its page, however many logs there are.

There is one trail of accepted batches and one of dropped ones (delivery_log.follow). The entries of a trail with the
same time name the logs that one script call has written. A log may have lost the records of that call since. A trail
keeps a limited number of entries, and may be deleted at any time. So its oldest entries may be missing, perhaps even
some with the oldest time that the trail still has. The records of that time and older ones are found by looking into
all logs.
]]
local delivery_log = include('records/delivery_log')
local delivery_sources = include('records/delivery_sources')
local merging = include('records/merging')
local delivery_trail = {}

-- An id that is smaller than all real ids. A listing shows entries of the same time by descending id, so after this id
-- only entries of earlier times follow.
local SMALLEST_ID = ('-'):rep(20)

-- Returns an iterator over the script calls that appended records to logs before the time `place` (ms), the newest
-- first. `ending` names the trail to read: 'taken' or 'dropped'. For each call, the iterator returns a table:
--   place   the time of the call (ms)
--   tokens  the subscribers to whose logs the call wrote
-- The oldest call in the trail is left out, because some of its entries may have been deleted.
local function read_writes(call, ending, place)
  local next_entry = delivery_sources.backwards(
    call.keys.deliveries_trail(ending), delivery_log.trail_position(call, ending, place)
  )
  local entry = next_entry()
  return function()
    if not entry then return end
    local its_place, tokens = delivery_log.time_of(entry), {}
    while entry and delivery_log.time_of(entry) == its_place do
      tokens[#tokens + 1] = entry:match('\n(.+)')
      entry = next_entry()
    end
    if entry then return { place = its_place, tokens = tokens } end
  end
end

-- Returns a table for reading one delivery log, the newest record first:
--   next  the record to list next; nil if none is left within the bounds of the listing
--   read  a function that returns the next older record at each call
local function log_of(reader, token)
  local log = reader.logs[token]
  if not log then
    local source = delivery_sources.log(reader.listing, reader.ending, token)
    log = source and { read = source:open() } or {}
    log.next = log.read and log.read()
    reader.logs[token] = log
  end
  return log
end

-- Returns the records that an earlier script call has appended to logs, the newest last. `written` is the table that
-- `read_writes` returned for this call. Leaves out records that are gone, or outside the bounds of the listing.
local function records_of(reader, written)
  local records = {}
  for _, token in ipairs(written.tokens) do
    local log = log_of(reader, token)
    while log.next and log.next.place > written.place do
      records[#records + 1] = log.next
      log.next = log.read()
    end
  end
  if #records > 1 then table.sort(records, function(one, other) return one.place < other.place end) end
  return records
end

-- Returns an iterator over all records with the reader's `ending` up to the time `place` (ms), the newest first.
-- Searches the logs of all subscribers.
local function read_all_logs(reader, place)
  local call, ending, sources = reader.listing.call, reader.ending, {}
  for _, name in ipairs(redis.call('ZRANGE', call.keys.deliveries_logs(), 0, -1)) do
    local its_ending, token = delivery_log.read_name(name)
    if its_ending == ending then
      sources[#sources + 1] = delivery_sources.log(reader.listing, ending, token, place)
    end
  end
  return merging.merged(sources)
end

-- Returns an iterator over the records of all logs, the newest first. For the time that the trail covers, only the logs
-- named in it are read. For older records, all logs are searched.
local function read_trail(reader)
  local listing = reader.listing
  local records, place, rest = {}, listing.newest_record, nil
  local next_write = read_writes(listing.call, reader.ending, place)
  return function()
    while #records == 0 do
      if rest then return rest() end
      local written = place >= listing.oldest_record and next_write()
      if written then
        place = written.place
        records = records_of(reader, written)
        if #records == 0 then
          if listing.looked >= listing.max_looked then return { place = place, id = SMALLEST_ID, stopped = true } end
          listing.looked = listing.looked + 1
        end
      elseif place < listing.oldest_record then
        return
      else
        rest = read_all_logs(reader, place)
      end
    end
    return table.remove(records)
  end
end

-- Returns a source of a listing (merging.lua): the records of all batches with this `ending` ('taken' or 'dropped').
-- `place` should be the time of the newest record. It is infinity, so that the source is opened first, because the time
-- is known only after the opening.
function delivery_trail.source(listing, ending)
  listing.sources = listing.sources + 1
  return { place = math.huge, open = read_trail, listing = listing, ending = ending, logs = {} }
end

return delivery_trail
