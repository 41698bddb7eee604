--[[
Opening: opens many batches in one call of publish.

`open` enters each batch in its subscriber's index and then writes its list. The other references to the
batches, including their jobs, are collected. `enter` writes them for all batches at once. The script
calls `enter` even if an error stopped it at one subscriber, so that every stored batch has its job.
]]
local batches = include('batches')
local bulk = include('bulk')
local jobs = include('jobs')
local open_batches = include('open_batches')
local opening = {}

local DEFAULT_TIMEOUT_MS = 500

-- The 64 digits of UIDs, sorted by byte, so that the UIDs of one call sort in the order in which they were
-- made.
local DIGITS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

-- Returns the state of one call. `uid_seed` is the first 16 characters of all UIDs that the call makes.
function opening.begin(uid_seed)
  return { uid_seed = uid_seed, uids = 0 }
end

-- Begins a new collection. Scores and times are formatted here once, because Redis takes 0.5 µs to convert
-- each Lua number.
local function begin_collection(call, opened)
  opened.now = string.format('%d', call.now_ms)
  opened.queue_score = string.format('%d', call.now_us)
  opened.index_score = string.format('%.3f', batches.index_score(call))
  opened.index, opened.jobs, opened.instant, opened.scheduled = {}, {}, {}, {}
  opened.tokens, opened.counts, opened.entries, opened.due = {}, {}, {}, {}
end

local function digit(number)
  return DIGITS:sub(number % 64 + 1, number % 64 + 1)
end

-- Returns a new UID: the seed, followed by a counter of four digits.
local function new_uid(opened)
  local number = opened.uids
  if number % 64 == 0 then
    local high, middle, low = math.floor(number / 262144), math.floor(number / 4096), math.floor(number / 64)
    opened.uid_stem = opened.uid_seed .. digit(high) .. digit(middle) .. digit(low)
  end
  opened.uids = number + 1
  return opened.uid_stem .. digit(number)
end

-- Enters new batches at the end of their subscriber's index.
local function enter_queue(call, opened, token, ordered, bids)
  local score = ordered == '1' and batches.queue_score(call, token, ordered)
  local entries = {}
  for i, bid in ipairs(bids) do
    entries[2 * i - 1] = score and string.format('%d', score + i - 1) or opened.queue_score
    entries[2 * i] = bid
  end
  bulk.command('ZADD', call.keys.batches_queued(token), entries)
end

-- Writes the list of a new batch: its header and the events from `first` to `last`.
local function write_batch(call, opened, bid, token, list, first, last)
  local batch, to = call.keys.batch(bid), math.min(last, first + bulk.MAX_VALUES - 1)
  redis.call('RPUSH', batch, token, opened.now, '0', unpack(list, first, to))
  while to < last do
    local from = to + 1
    to = math.min(last, from + bulk.MAX_VALUES - 1)
    redis.call('RPUSH', batch, unpack(list, from, to))
  end
end

-- Collects the references to a new batch. The job of a batch that is already full, or whose timeout is 0, is
-- instant.
local function collect(call, opened, bid, is_full, timeout_ms)
  local job = jobs.delivery_of(bid)
  local index, scheduled = opened.index, opened.scheduled
  index[#index + 1] = opened.index_score
  index[#index + 1] = bid
  opened.jobs[#opened.jobs + 1] = job
  if is_full or timeout_ms == 0 then
    opened.instant[#opened.instant + 1] = job
    return
  end
  if not opened.shortest_ms or timeout_ms < opened.shortest_ms then
    opened.shortest_ms, opened.first_due = timeout_ms, job
  end
  opened.due[timeout_ms] = opened.due[timeout_ms] or string.format('%d', call.now_ms + timeout_ms)
  scheduled[#scheduled + 1] = opened.due[timeout_ms]
  scheduled[#scheduled + 1] = job
end

-- Stores the events from `first` to `final` of the list in new batches of a subscriber.
function opening.open(call, opened, token, list, first, final)
  if not opened.index then begin_collection(call, opened) end
  local settings = redis.call('HMGET', call.keys.subscriber(token), 'timeout', 'max_events', 'ordered')
  local timeout_ms, max = tonumber(settings[1]) or DEFAULT_TIMEOUT_MS, open_batches.max_events(settings[2])
  local bids = {}
  for _ = first, final, max do bids[#bids + 1] = new_uid(opened) end
  if (final - first + 1) % max > 0 then
    redis.call('SADD', call.keys.batches_current(token), bids[#bids])
    opened.entries[#opened.entries + 1] = token
    opened.entries[#opened.entries + 1] = open_batches.entry(bids[#bids], max)
  end
  enter_queue(call, opened, token, settings[3], bids)
  opened.tokens[#opened.tokens + 1] = token
  opened.counts[#opened.counts + 1] = #bids
  for _, bid in ipairs(bids) do
    local last = math.min(final, first + max - 1)
    write_batch(call, opened, bid, token, list, first, last)
    collect(call, opened, bid, last - first + 1 == max, timeout_ms)
    first = last + 1
  end
  if #opened.jobs >= bulk.MAX_VALUES then opening.enter(call, opened) end
end

-- Writes the collected references of all batches that were opened since the last call of `enter`.
function opening.enter(call, opened)
  if not opened.index then return end
  local keys = call.keys
  bulk.command('ZADD', keys.batches_index(), opened.index)
  bulk.command('SADD', keys.jobs_index('main'), opened.jobs)
  bulk.command('LPUSH', keys.jobs_instant('main'), opened.instant)
  if #opened.instant > 0 then call.wakes.main = true end
  -- The job that is due first is scheduled by itself, since that wakes the scheduler if needed.
  if opened.shortest_ms then
    jobs.make_scheduled(call, 'main', opened.first_due, call.now_ms + opened.shortest_ms)
  end
  bulk.command('ZADD', keys.jobs_scheduled('main'), opened.scheduled)
  bulk.set_fields(keys.batches_open(), opened.entries)
  bulk.add_to_gauge(keys.gauge_batches(), opened.tokens, opened.counts)
  opened.index, opened.shortest_ms, opened.first_due = nil, nil, nil
end

return opening
