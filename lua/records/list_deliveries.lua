#!lua flags=no-writes,allow-oom
--[[
list_deliveries: read a page of batches, the newest first, of some subscribers (`tokens`) or of all, and in one state
or in any. With the state `dead`, `reason` may say why they died. Changes nothing.

A page is read in one step, so no batch changes its state meanwhile. It lists batches whose time is from `since_ms`
(included) to `until_ms` (not included): the time of their end, or of their creation if they have not ended. `place_ms`
and `place_id` are the time and the id of the last entry of the page before. In the reply, `next_ms` and `next_id` are
the place after which the next page begins; they are missing if there is none. A call looks at 2,000 batches at most. If
most of them are in other states, the page is short or empty, even if more batches follow. `looked` is the number of
batches at which the call looked, plus the number of indexes and logs in which it searched. `skipped` is the key of a
dead letter, index, log or trail that the page passes over, because another program has written this key.

The entry of a batch that has ended has the field `record` (delivery_log.lua). Other entries have the fields that
delivery_states.lua describes instead.
]]
local delivery_log = include('records/delivery_log')
local delivery_sources = include('records/delivery_sources')
local delivery_states = include('records/delivery_states')
local delivery_trail = include('records/delivery_trail')
local merging = include('records/merging')
local open_batches = include('delivering/open_batches')

-- Maximum batches that one call looks at. 2,000 take Redis about 5 ms.
local MAX_BATCHES = 2000
-- Maximum failed attempts that an entry of the reply shows: the latest ones.
local MAX_SHOWN_ATTEMPTS = 3
-- Number of subscribers that one EXISTS command checks for retried batches. A command for each subscriber would take
-- long.
local SUBSCRIBERS_PER_EXISTS = 50

local function queue_owners(listing, tokens)
  if #tokens > 0 then return tokens end
  local gauge, owners = redis.call('HGETALL', listing.call.keys.gauge_batches()), {}
  for i = 1, #gauge, 2 do owners[#owners + 1] = gauge[i] end
  listing.sources = listing.sources + #owners
  return owners
end

-- Each `add_…` function adds sources (merging.lua) to a merge: those that list one kind of batches, such as retried
-- ones. `tokens` has the subscribers whose batches are listed. If it is empty, the batches of all are listed.
local function add_queues(listing, merge, tokens)
  local keys = listing.call.keys
  for _, token in ipairs(tokens) do
    merging.add(merge, delivery_sources.batches(listing, keys.batches_queued(token), 1000))
  end
  if #tokens == 0 then merging.add(merge, delivery_sources.batches(listing, keys.batches_index(), 1)) end
end

local function add_open(listing, merge, tokens)
  local entries, bids, open = {}, {}, listing.call.keys.batches_open()
  for _, token in ipairs(tokens) do entries[#entries + 1] = redis.call('HGET', open, token) or nil end
  if #tokens == 0 then entries = redis.call('HVALS', open) end
  for i, entry in ipairs(entries) do bids[i] = open_batches.read_entry(entry) end
  delivery_sources.add_singles(listing, merge, bids)
end

local function add_in_flight(listing, merge, tokens)
  delivery_sources.add_singles(listing, merge, delivery_states.in_flight(listing.call, listing.seen, tokens))
end

local function add_paused(listing, merge, tokens)
  for _, token in ipairs(queue_owners(listing, tokens)) do
    if delivery_states.is_paused(listing.call, listing.seen, token) then add_queues(listing, merge, { token }) end
  end
end

local function add_retrying(listing, merge, tokens)
  local owners = queue_owners(listing, tokens)
  for from = 1, #owners, SUBSCRIBERS_PER_EXISTS do
    local indexes = {}
    for i = from, math.min(from + SUBSCRIBERS_PER_EXISTS - 1, #owners) do
      indexes[#indexes + 1] = listing.call.keys.batches_retrying(owners[i])
    end
    if redis.call('EXISTS', unpack(indexes)) > 0 then
      for _, index in ipairs(indexes) do
        merging.add(merge, delivery_sources.batches(listing, index, 1000))
      end
    end
  end
end

local function add_dead(listing, merge, tokens)
  local keys = listing.call.keys
  for _, token in ipairs(tokens) do
    merging.add(merge, delivery_sources.dead_letters(listing, keys.dead_letters_of(token)))
  end
  if #tokens == 0 then merging.add(merge, delivery_sources.dead_letters(listing, keys.dead_letters_index())) end
end

local function add_logs(listing, merge, tokens)
  for _, wanted in ipairs(listing.state and { listing.state } or delivery_log.ENDINGS) do
    for _, token in ipairs(tokens) do
      merging.add(merge, delivery_sources.log(listing, wanted, token, listing.newest_ms))
    end
    if #tokens == 0 then merging.add(merge, delivery_trail.source(listing, wanted)) end
  end
end

local ADD = {
  open = add_open, ready = add_queues, in_flight = add_in_flight, retrying = add_retrying, paused = add_paused,
  dead = add_dead, taken = add_logs, dropped = add_logs,
}

return function(call, args)
  local bounds = {
    since_ms = args.since_ms, until_ms = args.until_ms or math.huge, after_ms = args.place_ms, after_id = args.place_id,
  }
  local listing = delivery_sources.begin(call, bounds, args, MAX_BATCHES)
  local merge = merging.begin()
  for _, add in ipairs(args.state and { ADD[args.state] } or { add_queues, add_dead, add_logs }) do
    add(listing, merge, args.tokens)
  end
  local entries, last = {}, nil
  for entry in merging.next, merge do
    if entry.stopped then last = entry end
    if #entries == args.limit then last = entries[#entries] end
    if last then break end
    if not entry.record then delivery_states.describe(call, listing.seen, entry, MAX_SHOWN_ATTEMPTS) end
    entries[#entries + 1] = entry
  end
  for _, entry in ipairs(entries) do
    entry.place_ms, entry.last_attempts = string.format('%.3f', entry.at_ms), entry.last_attempts or {}
  end
  local next_ms = last and string.format('%.3f', last.at_ms)
  return {
    entries = entries, next_ms = next_ms, next_id = last and last.id, looked = listing.looked + listing.sources,
    skipped = listing.skipped,
  }
end
