--[[
Delivery trail: leads a listing of all subscribers through their logs, the newest record first. The listing reads only
logs that have records of its page, however many logs there are.

There is one trail of accepted batches and one of dropped ones (delivery_log.follow). Its entries with the same time
are one *write*: they name the logs to which one script call has appended records. The records are newer than this
write, and older than the next one. They may have been deleted since.

A trail is a source (merging.lua) that adds other sources. It goes back from write to write, and adds the logs that each
write names. So when it is at a write, all logs with newer records are in the merge.

A trail keeps a limited number of entries, and may be deleted at any time. So the oldest write that it still has may
lack entries. When the trail comes to this write, it adds all other logs, and ends.
]]
local delivery_log = include('records/delivery_log')
local delivery_sources = include('records/delivery_sources')
local merging = include('records/merging')
local delivery_trail = {}

-- An id that is smaller than all real ids. A listing shows entries of the same time by descending id. So a page that
-- begins after this id begins with an earlier time.
local SMALLEST_ID = ('-'):rep(20)

-- Returns an iterator over the writes in a trail up to `listing.newest_ms`, the newest first. A write is a script call
-- that appended records to logs. The iterator gives the time of the call (`at_ms`) and the subscribers of these logs
-- (`tokens`). It leaves out the oldest write, because the trail may have lost some of its subscribers.
local function read_writes(listing, list)
  local length = delivery_sources.count_until(listing, list, 1, listing.newest_ms)
  local next_entry = delivery_sources.backwards(list, length)
  local entry = next_entry()
  return function()
    if not entry then return end
    local at_ms, tokens = delivery_log.time_of(entry), {}
    while entry and delivery_log.time_of(entry) == at_ms do
      tokens[#tokens + 1] = entry:match('\n(.+)')
      entry = next_entry()
    end
    if entry then return { at_ms = at_ms, tokens = tokens } end
  end
end

-- Adds the log of a subscriber to the merge, unless the log is already in the merge. Returns the source of the log, or
-- false if the log has no records within the bounds of the listing.
local function add_log(trail, merge, token, newest_ms)
  local log = trail.logs[token]
  if log == nil then
    log = delivery_sources.log(trail.listing, trail.ending, token, newest_ms) or false
    trail.logs[token] = log
    merging.add(merge, log)
  end
  return log
end

local function add_all_logs(trail, merge)
  for _, name in ipairs(redis.call('ZRANGE', trail.listing.call.keys.deliveries_logs(), 0, -1)) do
    local ending, token = delivery_log.read_name(name)
    if ending == trail.ending then add_log(trail, merge, token, trail.at_ms) end
  end
end

-- Goes on to the next older write, which is a script call that appended records to logs. Adds these logs to the merge,
-- and returns an entry with the time of the write and without an id, so it is not listed. If all these records were
-- deleted, counts the write in `listing.looked`, as if it were a batch.
local function read_trail(trail, merge)
  local listing = trail.listing
  if trail.at_ms < listing.oldest_ms then return end
  trail.next_write = trail.next_write or read_writes(listing, trail.list)
  local write = trail.next_write()
  if not write then return add_all_logs(trail, merge) end
  local has_records = false
  for _, token in ipairs(write.tokens) do
    local log = add_log(trail, merge, token, listing.newest_ms)
    has_records = has_records or log and log.at_ms > write.at_ms
  end
  if not has_records then
    if listing.looked >= listing.max_looked then
      return { at_ms = write.at_ms, id = SMALLEST_ID, stopped = true }
    end
    listing.looked = listing.looked + 1
  end
  return { at_ms = write.at_ms }
end

-- Returns a source of a listing (merging.lua): the records of all batches with this `ending` ('taken' or 'dropped').
function delivery_trail.source(listing, ending)
  listing.sources = listing.sources + 1
  return {
    at_ms = listing.newest_ms, read = read_trail, listing = listing, list = listing.call.keys.deliveries_trail(ending),
    ending = ending, logs = {},
  }
end

return delivery_trail
