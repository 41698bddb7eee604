--[[
Delivery log: keeps a record of each batch that its subscriber accepted (`taken`) or that was dropped, for a while. A
subscriber has two logs, one of accepted batches and one of dropped ones. A log is a list of UID, record, UID, record,
…, the newest at the end.

A record is the items of a JSON array, without the brackets. Its first item is the time at which the batch ended (µs),
by which the record is listed. The next items are the time at which the batch was closed (ms; 0 if it was closed when it
was created), the time of its creation (ms), the number of events, the number of attempts, and the number of events by
topic (`null` if counting them or storing the numbers would cost too much). There follow

  taken    the bytes of the delivery; time (ms), status and duration (ms) of the last attempt
  dropped  the reason

and, if attempts failed, the time of the first failed one (ms) and a list of the last failed ones.

The hash `deliveries:total` counts the records of all logs together. When they reach the maximum, the longest log loses
its oldest records, so a busy subscriber does not push out the records of others. Records are counted in whole UNITs
(16), so that most script calls need not change a count. Counting each record took three times as long. If there are
very many logs, records below a UNIT, which are not counted, could exceed the maximum by themselves. So a log of less
than a UNIT keeps at most an equal part of the maximum, but at least one record. Its older records are deleted when
records are appended to it.

The *trail* of an ending (`deliveries:trail:{ending}`) tells which logs were written when. It is a list, the newest
entry at the end. When a script call appends records, the trail gets an entry for each log that the call appends to: the
time of the script call (µs), a newline and the token of the subscriber. The records of a script call are newer than the
entries of that call, and older than the entries of the next call. Listings of all subscribers follow the trail
(delivery_trail.lua).
]]
local many = include('store/many')
local open_batches = include('delivering/open_batches')
local delivery_log = { ENDINGS = { 'taken', 'dropped' } }

local UNIT = 16
-- When all delivery logs together are full, the longest one loses LUMP records at a time. A script call removes at most
-- MAX_REMOVED records, so as not to block Redis after an operator has lowered the limit.
local LUMP, MAX_REMOVED = 64, 1024
-- Maximum failed attempts in a record, and maximum bytes of these attempts together. A failed attempt quotes the answer
-- of the subscriber, which could otherwise take more memory than the rest of the record.
local MAX_RECORD_ATTEMPTS, MAX_RECORD_ATTEMPTS_BYTES = 3, 512
-- Maximum bytes of the JSON with the number of events by topic. If it is longer, a record has `null` in its place.
local MAX_TOPICS_BYTES = 256
-- Time for which a record is shown: a day.
delivery_log.KEPT_MS = 86400000

-- Returns the number that `deliveries:logs` stores for a log: `records`, the number of its records, rounded down to
-- whole UNITs. Because of the rounding, the stored number seldom changes. Returns nil for an empty log, which is not
-- stored there.
function delivery_log.counted(records)
  if records > 0 then return records - records % UNIT end
end

function delivery_log.list_of(call, ending, token)
  return ending == 'taken' and call.keys.deliveries_taken(token) or call.keys.deliveries_dropped(token)
end

-- Returns the name that a log has in the sorted set `deliveries:logs`.
function delivery_log.name_of(ending, token)
  return ending .. ' ' .. token
end

function delivery_log.read_name(name)
  local space = name:find(' ', 1, true)
  return name:sub(1, space - 1), name:sub(space + 1)
end

function delivery_log.length(call, ending, token)
  return redis.call('LLEN', delivery_log.list_of(call, ending, token)) / 2
end

-- Stores how many records a log has, rounded down (see `counted`). `records` is the exact number, and `counted` what
-- was stored before. Returns the sum of the stored numbers of all logs.
function delivery_log.count(call, name, records, counted)
  local now_counted = delivery_log.counted(records)
  if now_counted then
    redis.call('ZADD', call.keys.deliveries_logs(), now_counted, name)
  else
    redis.call('ZREM', call.keys.deliveries_logs(), name)
  end
  return redis.call('HINCRBY', call.keys.deliveries_total(), 'records', (now_counted or 0) - counted)
end

-- Removes the `removed` oldest records of a log, and corrects its number of records in `deliveries:logs`. `counted` is
-- this number before the call. Returns the sum of the numbers of all logs.
function delivery_log.cut(call, name, counted, removed)
  local ending, token = delivery_log.read_name(name)
  redis.call('LTRIM', delivery_log.list_of(call, ending, token), 2 * removed, -1)
  return delivery_log.count(call, name, delivery_log.length(call, ending, token), counted)
end

-- Removes the oldest records of the longest logs until all logs together have at most `max` records, or until
-- MAX_REMOVED records are removed. `total` is the sum of the stored numbers of records, which are rounded down to whole
-- UNITs. So the logs may have up to `uncounted` more records than `total`.
local function shrink(call, total, max)
  local uncounted, removed = (UNIT - 1) * redis.call('ZCARD', call.keys.deliveries_logs()), 0
  while total + uncounted > max and removed < MAX_REMOVED do
    local name, counted = unpack(redis.call('ZRANGE', call.keys.deliveries_logs(), 0, 0, 'REV', 'WITHSCORES'))
    counted = tonumber(counted) or 0
    if counted == 0 then return end
    -- The log keeps at least its newest UNIT / 2 records.
    local lump = math.min(LUMP, counted - UNIT / 2)
    total = delivery_log.cut(call, name, counted, lump)
    removed = removed + lump
  end
end

-- Shortens a log of fewer than UNIT records. `shrink` never shortens such a log, because its stored number of records
-- is 0. `max` is the maximum of all logs together. If there are 100 logs, this log keeps its newest `max` / 100
-- records, but at least one. Returns the number of records that are left.
local function cut_to_part(call, list, records, max)
  if records >= UNIT then return records end
  local part = math.max(1, math.floor(max / redis.call('ZCARD', call.keys.deliveries_logs())))
  if records <= part then return records end
  redis.call('LTRIM', list, -2 * part, -1)
  return part
end

-- Appends records to one of a subscriber's two logs: `ending` is 'taken' (accepted batches) or 'dropped'. `entries` is
-- a list of UID, record, UID, record, …, with the UIDs of the batches. `max` is the maximum number of records in all
-- logs together; if it is 0, nothing is kept. The subscriber must exist: logs of a removed subscriber would stay until
-- a sweep deletes them.
function delivery_log.append(call, ending, token, entries, max)
  if #entries == 0 or max == 0 then return end
  local list = delivery_log.list_of(call, ending, token)
  local records = redis.call('RPUSH', list, unpack(entries)) / 2
  local counted = delivery_log.counted(records - #entries / 2)
  records = cut_to_part(call, list, records, max)
  if counted == delivery_log.counted(records) then return end
  shrink(call, delivery_log.count(call, delivery_log.name_of(ending, token), records, counted or 0), max)
  cut_to_part(call, list, redis.call('LLEN', list) / 2, max)
end

-- Notes in a trail that this script call wrote to the logs of the subscribers `tokens`. A trail lists such writes in
-- order of time. `ending` is `taken` for the trail of accepted batches, and `dropped` for that of dropped ones.
function delivery_log.follow(call, ending, tokens, max)
  if #tokens == 0 or max == 0 then return end
  local trail, at, entries = call.keys.deliveries_trail(ending), string.format('%d\n', call.now_us), {}
  for i, token in ipairs(tokens) do entries[i] = at .. token end
  local length = many.command('RPUSH', trail, entries)
  -- Each entry of the trail stands for at least one record, and about `max` records are kept. So the newest `max`
  -- entries are enough for listings. Older entries are deleted LUMP at a time, so that few script calls have to delete
  -- any.
  if length > max + LUMP then redis.call('LTRIM', trail, -max, -1) end
end

-- Returns how many records of a log, or entries of a trail, are not newer than `at_ms`, by a binary search. `list` has
-- the oldest first. Each record takes `items` places in the list, and the last of them begins with the time. If another
-- program has written an incomplete record at the end, it is left out: with a length such as 1.5 records, the search
-- would never end.
function delivery_log.count_until(list, items, at_ms)
  local length = math.floor(redis.call('LLEN', list) / items)
  if at_ms == math.huge then return length end
  local low, high = 0, length + 1
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    local is_newer = delivery_log.time_of(redis.call('LINDEX', list, items * middle - 1)) > at_ms
    if is_newer then high = middle else low = middle end
  end
  return low
end

function delivery_log.remove(call, ending, token)
  local name = delivery_log.name_of(ending, token)
  local counted = redis.call('ZSCORE', call.keys.deliveries_logs(), name)
  redis.call('UNLINK', delivery_log.list_of(call, ending, token))
  if counted then delivery_log.count(call, name, 0, tonumber(counted)) end
end

-- Returns the last part of a record, as JSON text: the time of the first failed attempt at the batch, and a list of the
-- latest failed attempts. Returns an empty text if no attempt failed.
function delivery_log.failures(call, bid)
  local attempts = call.keys.attempts(bid)
  local first = redis.call('LINDEX', attempts, 0)
  if not first then return '' end
  local last, kept, bytes = redis.call('LRANGE', attempts, -MAX_RECORD_ATTEMPTS, -1), {}, 0
  for i = #last, 1, -1 do
    bytes = bytes + #last[i]
    if bytes > MAX_RECORD_ATTEMPTS_BYTES then break end
    table.insert(kept, 1, last[i])
  end
  return ',' .. (first:match('^{"at":(%d+)') or 'null') .. ',[' .. table.concat(kept, ',') .. ']'
end

-- Completes the record of a batch that ends now. Puts two times before `record`: the time of the end (µs), and the time
-- at which the batch was closed (`closed_ms`; 0 if there is none). Records of one script call get ends 1 µs apart, so
-- that no two have the same time. Making a record takes longer than 1 µs, so records of later calls get later times.
function delivery_log.ended_now(call, closed_ms, record)
  call.records_made = (call.records_made or 0) + 1
  return string.format('%d', call.now_us + call.records_made) .. ',' .. (closed_ms or '0') .. ',' .. record
end

-- Returns the time (ms) with which a record or an entry of the trail begins. The text has it in µs (16 digits).
function delivery_log.time_of(text)
  return (tonumber(text:sub(1, 16)) or 0) / 1000
end

local function topics_text(topics)
  if not topics then return 'null' end
  local counts = {}
  for topic, events in pairs(topics) do counts[#counts + 1] = string.format('"%s":%d', topic, events) end
  local text = '{' .. table.concat(counts, ',') .. '}'
  return #text <= MAX_TOPICS_BYTES and text or 'null'
end

-- Returns an empty collection for the records of batches that a script call drops, all for the same `reason`. If `max`
-- is 0, the delivery log is off, and nothing is collected.
function delivery_log.drops(reason, max)
  return { reason = reason, max = max, by_token = {}, open_of = {} }
end

-- Returns the time (ms, as text) at which a batch that is about to be dropped was closed to new events: now if the
-- batch is open. Returns false if no time is stored: the first events of the batch filled it, or it is a retried dead
-- letter. Keeps in `records` what it reads from Redis, to read it only once.
local function closed_ms_of(call, records, bid, token)
  local open_of = records.open_of
  if open_of[token] == nil then open_of[token] = open_batches.bid_of(call, token) end
  if open_of[token] == bid then return string.format('%d', call.now_ms) end
  if records.has_no_closed == nil then records.has_no_closed = open_batches.has_no_closed(call) end
  return not records.has_no_closed and open_batches.closed_ms(call, bid)
end

-- Collects the record of a batch that the script is about to drop. `about` has the `token` of its subscriber, its
-- `created_ms` and `attempts` as Redis stores them (texts), the number of its `events`, and perhaps `topics`: the
-- number of events by topic.
function delivery_log.add_drop(call, records, bid, about)
  if records.max == 0 then return end
  local token = about.token
  local entries = records.by_token[token] or {}
  records.by_token[token] = entries
  entries[#entries + 1] = bid
  local failures = about.attempts ~= '0' and delivery_log.failures(call, bid) or ''
  -- If the stored batch is damaged, `created_ms` and `attempts` may not be numbers. The record then has 0 in their
  -- place.
  entries[#entries + 1] = delivery_log.ended_now(call, closed_ms_of(call, records, bid, token), string.format(
    '%d,%d,%d,%s,"%s"%s', tonumber(about.created_ms) or 0, about.events, tonumber(about.attempts) or 0,
    topics_text(about.topics), records.reason, failures
  ))
end

-- Stores the collected records, except those of subscribers that no longer exist.
function delivery_log.write_drops(call, records)
  local tokens = {}
  for token, entries in pairs(records.by_token) do
    if redis.call('EXISTS', call.keys.subscriber(token)) == 1 then
      delivery_log.append(call, 'dropped', token, entries, records.max)
      tokens[#tokens + 1] = token
    end
  end
  delivery_log.follow(call, 'dropped', tokens, records.max)
end

return delivery_log
