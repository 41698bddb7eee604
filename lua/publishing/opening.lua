--[[
Opening: opens many batches in one script call of publish.

`open` enters each batch in its subscriber's index and then writes its list. The other references to the
batches, including their jobs, are collected. `enter` writes them for all batches at once. The script
calls `enter` even if an error stopped it at one subscriber, so that every stored batch has its job.
]]
local agenda = include('flow/agenda')
local batches = include('delivering/batches')
local defaults = include('store/defaults')
local jobs = include('delivering/jobs')
local many = include('store/many')
local open_batches = include('delivering/open_batches')
local ruby = include('maintenance/ruby')
local uids = include('store/uids')
local opening = {}

-- Maximum number of batches that one script call opens: opening 10,000 batches of one event blocked Redis for 130 ms.
-- If the events of a subscriber need more batches than the call may still open, all these events go into one long
-- batch, which acquire cuts later (cutting.lua).
local MAX_OPENED = 300

-- Creates the table that a script call keeps while it opens batches. The UIDs of these batches begin with the 16
-- characters of `uid_seed`. `writes` collects index entries and jobs for `enter`; it is false if `enter` has nothing to
-- write.
function opening.begin(uid_seed)
  return { uids = uids.begin(uid_seed), writes = false }
end

-- Creates a table that collects what `enter` will write about new batches. Scores and times are texts: numbers would
-- have to be converted for each batch, which takes Redis 0.5 µs each time.
local function begin_writes(call)
  return {
    created_ms = string.format('%d', call.accepted_ms),
    queue_score = string.format('%d', call.accepted_us),
    index_score = batches.index_score(call),
    index = {}, jobs = {}, instant = {}, scheduled = {}, due = {}, shortest_ms = false,
    tokens = {}, counts = {}, entries = {}, rooms = {}, closed = {},
  }
end

-- Adds new batches to their subscriber's index. For an ordered subscriber, they come after all batches in the index.
local function enter_queue(call, writes, token, ordered, bids)
  local score = ordered == '1' and batches.queue_score(call, token, ordered)
  local entries = {}
  for i, bid in ipairs(bids) do
    entries[2 * i - 1] = score and string.format('%d', score + i - 1) or writes.queue_score
    entries[2 * i] = bid
  end
  many.command('ZADD', call.keys.batches_queued(token), entries)
end

local function write_batch(call, writes, bid, token, list, first, last)
  local batch, to = call.keys.batch(bid), math.min(last, first + many.MAX_VALUES - 1)
  redis.call('RPUSH', batch, token, writes.created_ms, '0', unpack(list, first, to))
  while to < last do
    local from = to + 1
    to = math.min(last, from + many.MAX_VALUES - 1)
    redis.call('RPUSH', batch, unpack(list, from, to))
  end
end

-- Makes a new batch the open batch of its subscriber, the one that takes the subscriber's next events. Returns true, or
-- false if the bytes of the batch's first events fill it, so that it cannot be open.
local function leave_open(call, writes, bid, token, max_events, max_bytes, events, first)
  if not open_batches.needs_no_count(max_events, max_bytes, events, first) then
    local value, room = open_batches.new_room(bid, max_bytes, open_batches.bytes_of(events, first))
    if room <= 0 then return false end
    writes.rooms[#writes.rooms + 1] = token
    writes.rooms[#writes.rooms + 1] = value
  end
  -- If this bus has taken over the Redis of a Ruby Routemaster, the batch is not added to the set
  -- `batches:current:{token}`. A Ruby process that still runs would find it there, and append events under another key,
  -- that of the Ruby layout.
  if not ruby.was_here(call) then redis.call('SADD', call.keys.batches_current(token), bid) end
  writes.entries[#writes.entries + 1] = token
  writes.entries[#writes.entries + 1] = open_batches.entry(bid, max_events, max_bytes)
  return true
end

-- Adds a new batch to what `enter` will write. If the batch is full, or the subscriber's timeout is 0, any worker may
-- take its job at once (instant). Otherwise the job is scheduled for the deadline of the batch.
local function collect(call, writes, bid, is_full, timeout_ms)
  local job = jobs.delivery_of(bid)
  local index, scheduled = writes.index, writes.scheduled
  index[#index + 1] = writes.index_score
  index[#index + 1] = bid
  writes.jobs[#writes.jobs + 1] = job
  -- A batch without a stored time of closing counts as closed at its creation, which is when another partition accepted
  -- its events. But this batch is closed now, and drop_queue.lua must know that.
  if is_full and call.accepted_us < call.now_us then
    writes.closed[#writes.closed + 1] = bid
    writes.closed[#writes.closed + 1] = string.format('%d', call.now_ms)
  end
  if is_full or timeout_ms == 0 then
    writes.instant[#writes.instant + 1] = job
    return
  end
  if not writes.shortest_ms or timeout_ms < writes.shortest_ms then writes.shortest_ms = timeout_ms end
  writes.due[timeout_ms] = writes.due[timeout_ms] or string.format('%d', call.accepted_ms + timeout_ms)
  scheduled[#scheduled + 1] = writes.due[timeout_ms]
  scheduled[#scheduled + 1] = job
end

-- Stores events, from position `first` of the list on, in new batches of a subscriber.
function opening.open(call, opened, token, events, first)
  local writes = opened.writes or begin_writes(call)
  opened.writes = writes
  local timeout, max_events, ordered, max_bytes =
    unpack(redis.call('HMGET', call.keys.subscriber(token), 'timeout', 'max_events', 'ordered', 'max_bytes'))
  local timeout_ms, max = tonumber(timeout) or defaults.timeout_ms, open_batches.max_events(max_events)
  local count, bids = #events - first + 1, {}
  -- If the call would open too many batches, all events go into one long batch.
  if count > max and opened.uids.count + count / max > MAX_OPENED then max = count end
  for _ = 1, count, max do bids[#bids + 1] = uids.next(opened.uids) end
  -- The last batch stays open unless it is full. It is full if it has `max` events (then `tail` is 0), or if its bytes
  -- fill it.
  local tail = count % max
  local is_open = tail > 0
    and leave_open(call, writes, bids[#bids], token, max, max_bytes, events, #events - tail + 1)
  enter_queue(call, writes, token, ordered, bids)
  writes.tokens[#writes.tokens + 1] = token
  writes.counts[#writes.counts + 1] = #bids
  for i, bid in ipairs(bids) do
    local last = math.min(#events, first + max - 1)
    write_batch(call, writes, bid, token, events, first, last)
    collect(call, writes, bid, i < #bids or not is_open, timeout_ms)
    first = last + 1
  end
  if #writes.jobs >= many.MAX_VALUES then opening.enter(call, opened) end
end

-- Writes what `open` has collected about the batches since the last call of `enter`: to the indexes, the job queues,
-- the hashes of open batches, and the gauge of batches.
function opening.enter(call, opened)
  local writes, keys = opened.writes, call.keys
  if not writes then return end
  -- `opened.writes` is cleared before the commands run. Otherwise, if a command failed, the next call of this function
  -- would put the same jobs into the queue again.
  opened.writes = false
  many.command('ZADD', keys.batches_index(), writes.index)
  many.command('SADD', keys.jobs_index('main'), writes.jobs)
  many.command('LPUSH', keys.jobs_instant('main'), writes.instant)
  if #writes.instant > 0 then call.wakes.main = true end
  if writes.shortest_ms then
    agenda.note_due(call, keys.jobs_scheduled('main'), call.accepted_ms + writes.shortest_ms)
  end
  many.command('ZADD', keys.jobs_scheduled('main'), writes.scheduled)
  many.set_fields(keys.batches_open(), writes.entries)
  many.set_fields(keys.batches_room(), writes.rooms)
  many.set_fields(keys.batches_closed(), writes.closed)
  many.add_to_gauge(keys.gauge_batches(), writes.tokens, writes.counts)
end

return opening
