--[[
Opening: opens many batches in one script call of publish.

`open` enters each batch in its subscriber's index and then writes its list. The other references to the
batches, including their jobs, are collected. `enter` writes them for all batches at once. The script
calls `enter` even if an error stopped it at one subscriber, so that every stored batch has its job.
]]
local batches = include('delivering/batches')
local bulk = include('store/bulk')
local defaults = include('store/defaults')
local jobs = include('delivering/jobs')
local open_batches = include('delivering/open_batches')
local ruby = include('maintenance/ruby')
local uids = include('store/uids')
local opening = {}

-- Maximum batches that one script call opens. Events of a subscriber that would need more go into one long batch, which
-- acquire delivers in parts (cutting.lua). Opening a batch takes Redis 13 µs: 10,000 events for a subscriber with
-- max_events 1 blocked Redis for 130 ms.
local MAX_OPENED = 300

-- Creates the working state of one script call. All UIDs of the call begin with the 16 characters of `uid_seed`.
function opening.begin(uid_seed)
  return { uids = uids.begin(uid_seed) }
end

-- Begins to collect what is written to indexes and queues about new batches. Scores and times are formatted once,
-- because Redis takes 0.5 µs to convert each Lua number.
local function begin_collection(call, opened)
  opened.created_ms = string.format('%d', call.accepted_ms)
  opened.queue_score = string.format('%d', call.accepted_us)
  opened.index_score = string.format('%.3f', batches.index_score(call))
  opened.index, opened.jobs, opened.instant, opened.scheduled = {}, {}, {}, {}
  opened.tokens, opened.counts, opened.entries, opened.rooms, opened.due = {}, {}, {}, {}, {}
end

-- Adds new batches to their subscriber's index, at the end.
local function enter_queue(call, opened, token, ordered, bids)
  local score = ordered == '1' and batches.queue_score(call, token, ordered)
  local entries = {}
  for i, bid in ipairs(bids) do
    entries[2 * i - 1] = score and string.format('%d', score + i - 1) or opened.queue_score
    entries[2 * i] = bid
  end
  bulk.command('ZADD', call.keys.batches_queued(token), entries)
end

-- Writes a new batch: its header, and the events of `list` from position `first` to `last`.
local function write_batch(call, opened, bid, token, list, first, last)
  local batch, to = call.keys.batch(bid), math.min(last, first + bulk.MAX_VALUES - 1)
  redis.call('RPUSH', batch, token, opened.created_ms, '0', unpack(list, first, to))
  while to < last do
    local from = to + 1
    to = math.min(last, from + bulk.MAX_VALUES - 1)
    redis.call('RPUSH', batch, unpack(list, from, to))
  end
end

-- Makes a new batch the open batch of its subscriber, which gets the next events. Returns false, and does nothing, if
-- it already has as many bytes as a delivery may have.
local function leave_open(call, opened, bid, token, max_events, max_bytes, slice, first)
  if not open_batches.needs_no_count(max_events, max_bytes, slice, first) then
    local value, room = open_batches.new_room(bid, max_bytes, open_batches.bytes_of(slice, first))
    if room <= 0 then return false end
    opened.rooms[#opened.rooms + 1] = token
    opened.rooms[#opened.rooms + 1] = value
  end
  -- A Ruby web process finds its open batches in this set, and this bus in `batches:open`. After a takeover, batches
  -- stay out of the set. Otherwise a Ruby process that still runs would append events under a key that this bus does
  -- not read.
  if not ruby.was_here(call) then redis.call('SADD', call.keys.batches_current(token), bid) end
  opened.entries[#opened.entries + 1] = token
  opened.entries[#opened.entries + 1] = open_batches.entry(bid, max_events, max_bytes)
  return true
end

-- Collects what is written to indexes and queues about a new batch. Its job is instant if the batch is full already, or
-- the subscriber's timeout is 0. Otherwise it is scheduled.
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
  opened.due[timeout_ms] = opened.due[timeout_ms] or string.format('%d', call.accepted_ms + timeout_ms)
  scheduled[#scheduled + 1] = opened.due[timeout_ms]
  scheduled[#scheduled + 1] = job
end

-- Stores the events of a slice (intake.lua), from position `first` on, in new batches of a subscriber.
function opening.open(call, opened, token, slice, first)
  if not opened.index then begin_collection(call, opened) end
  local timeout, max_events, ordered, max_bytes =
    unpack(redis.call('HMGET', call.keys.subscriber(token), 'timeout', 'max_events', 'ordered', 'max_bytes'))
  local timeout_ms, max, final = tonumber(timeout) or defaults.timeout_ms, open_batches.max_events(max_events), slice.last
  local count, bids = final - first + 1, {}
  if count > max and opened.uids.count + count / max > MAX_OPENED then max = count end
  for _ = first, final, max do bids[#bids + 1] = uids.next(opened.uids) end
  local tail = count % max
  local is_open = tail > 0 and leave_open(call, opened, bids[#bids], token, max, max_bytes, slice, final - tail + 1)
  enter_queue(call, opened, token, ordered, bids)
  opened.tokens[#opened.tokens + 1] = token
  opened.counts[#opened.counts + 1] = #bids
  for i, bid in ipairs(bids) do
    local last = math.min(final, first + max - 1)
    write_batch(call, opened, bid, token, slice.list, first, last)
    collect(call, opened, bid, i < #bids or not is_open, timeout_ms)
    first = last + 1
  end
  if #opened.jobs >= bulk.MAX_VALUES then opening.enter(call, opened) end
end

-- Writes what was collected about the batches opened since the last call of `enter`: to the indexes, the job queues,
-- and the hashes of open batches.
function opening.enter(call, opened)
  if not opened.index then return end
  local keys = call.keys
  bulk.command('ZADD', keys.batches_index(), opened.index)
  bulk.command('SADD', keys.jobs_index('main'), opened.jobs)
  bulk.command('LPUSH', keys.jobs_instant('main'), opened.instant)
  if #opened.instant > 0 then call.wakes.main = true end
  -- `make_scheduled` wakes the scheduler if necessary. One call is enough, for the job that is due first. ZADD then
  -- schedules all the jobs; the first one gets the same time again.
  if opened.shortest_ms then
    jobs.make_scheduled(call, 'main', opened.first_due, call.accepted_ms + opened.shortest_ms)
  end
  bulk.command('ZADD', keys.jobs_scheduled('main'), opened.scheduled)
  bulk.set_fields(keys.batches_open(), opened.entries)
  bulk.set_fields(keys.batches_room(), opened.rooms)
  bulk.add_to_gauge(keys.gauge_batches(), opened.tokens, opened.counts)
  opened.index, opened.shortest_ms, opened.first_due = nil, nil, nil
end

return opening
