-- Opening batches, many in one call. Each is in its subscriber's index before it is made. What names it elsewhere, its job
-- among that, is collected and entered for all at once (enter_opened), which the script does whatever has failed.

local DEFAULT_TIMEOUT_MS = 500

-- In the order of their bytes, so that the UIDs of one call sort as they were made.
local DIGITS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
local made, stem = 0, nil
local function new_bid()
  local digit = made % 64
  if digit == 0 then
    local rest, middle = made, ''
    for _ = 1, 3 do
      rest = math.floor(rest / 64)
      middle = DIGITS:sub(rest % 64 + 1, rest % 64 + 1) .. middle
    end
    stem = ARGV[1] .. middle
  end
  made = made + 1
  return stem .. DIGITS:sub(digit + 1, digit + 1)
end

local function collection()
  return { index = {}, jobs = {}, instant = {}, scheduled = {}, tokens = {}, counts = {}, open = {} }
end
local opened
local shortest, shortest_job

-- Digits, written once: to hand Redis a number of Lua's takes it half a microsecond.
local NOW, AT, AMONG_ALL
local due = {}
local function begin_opening()
  if opened then return end
  opened = collection()
  NOW, AT = string.format('%d', now), string.format('%d', queue_score())
  AMONG_ALL = string.format('%.3f', index_score())
end

local function enter_queue(token, ordered, bids)
  local score = ordered == '1' and queue_score(token, ordered)
  local entries = {}
  for i, bid in ipairs(bids) do
    entries[2 * i - 1] = score and string.format('%d', score + i - 1) or AT
    entries[2 * i] = bid
  end
  in_bulk('ZADD', key.batches_queued(token), entries)
end

local function write_batch(bid, token, events, first, last)
  local to = math.min(last, first + CHUNK - 1)
  redis.call('RPUSH', key.batch(bid), token, NOW, '0', unpack(events, first, to))
  while to < last do
    local from = to + 1
    to = math.min(last, from + CHUNK - 1)
    redis.call('RPUSH', key.batch(bid), unpack(events, from, to))
  end
end

-- A batch that is born full is ready at once.
local function collect(bid, is_full, timeout)
  local job = batch_job(bid)
  local index, jobs = opened.index, opened.jobs
  index[#index + 1] = AMONG_ALL
  index[#index + 1] = bid
  jobs[#jobs + 1] = job
  if is_full or timeout == 0 then
    opened.instant[#opened.instant + 1] = job
  else
    if not shortest or timeout < shortest then shortest, shortest_job = timeout, job end
    due[timeout] = due[timeout] or string.format('%d', now + timeout)
    opened.scheduled[#opened.scheduled + 1] = due[timeout]
    opened.scheduled[#opened.scheduled + 1] = job
  end
end

local function enter_opened()
  if not opened then return end
  in_bulk('ZADD', key.batches_index(), opened.index)
  in_bulk('SADD', key.jobs_index('main'), opened.jobs)
  in_bulk('LPUSH', key.jobs_instant('main'), opened.instant)
  if #opened.instant > 0 then wakes.main = true end
  -- The first that is due by itself: that tells the scheduler.
  if shortest then make_scheduled('main', shortest_job, now + shortest) end
  in_bulk('ZADD', key.jobs_scheduled('main'), opened.scheduled)
  set_fields(key.batches_open(), opened.open)
  add_to_gauge(key.gauge_batches(), opened.tokens, opened.counts)
  opened, shortest, shortest_job = nil, nil, nil
end

-- Puts events, of a list those from `first` to `final`, into new batches.
local function open_batches(token, events, first, final)
  begin_opening()
  local timeout, max, ordered = unpack(redis.call('HMGET', key.subscriber(token), 'timeout', 'max_events', 'ordered'))
  timeout, max = tonumber(timeout) or DEFAULT_TIMEOUT_MS, most_events(max)
  local bids = {}
  for _ = first, final, max do bids[#bids + 1] = new_bid() end
  if (final - first + 1) % max > 0 then
    redis.call('SADD', key.batches_current(token), bids[#bids])
    opened.open[#opened.open + 1] = token
    opened.open[#opened.open + 1] = open_entry(bids[#bids], max)
  end
  enter_queue(token, ordered, bids)
  opened.tokens[#opened.tokens + 1] = token
  opened.counts[#opened.counts + 1] = #bids
  for _, bid in ipairs(bids) do
    local last = math.min(final, first + max - 1)
    write_batch(bid, token, events, first, last)
    collect(bid, last - first + 1 == max, timeout)
    first = last + 1
  end
  if #opened.jobs >= CHUNK then enter_opened() end
end
