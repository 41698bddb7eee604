--[[
Cutting: reads as many events of a batch as one delivery may carry. If the batch has more, the events that were read
become a batch of their own. The other events stay in the batch, which keeps its position in the queue. They are
delivered next. If a long batch fits into one delivery, the worker reads the events itself.

Both parts get new UIDs. If a failover loses the cut, and the subscriber's limits are higher then, all events are
delivered under the old UID. A receiver that had got only one part under the old UID would ignore all other events.

A batch can be too large because it was opened as a long one (opening.lua), because its last events came in one script
call, because it has small events, whose bytes are not counted, besides large ones (open_batches.lua), because its
subscriber has lowered a limit since, or because an old release, without max_bytes, opened it.
]]
local batches = include('delivering/batches')
local choosing = include('delivering/choosing')
local jobs = include('delivering/jobs')
local many = include('store/many')
local open_batches = include('delivering/open_batches')
local pieces = include('delivering/pieces')
local uids = include('store/uids')
local cutting = {}

local EVENTS_PER_READ = 100
-- A batch that was attempted before stays whole up to this number of bytes, so that the next attempt has the same UID
-- and body. A larger batch is split, because its size may have killed workers.
local MAX_ATTEMPTED_BYTES = 33554432

-- A batch that takes more bytes of memory in Redis than this is long. A script that read a batch of 16 MiB blocked
-- Redis for 45 ms.
local LONG_BYTES = 2097152

-- Returns how many bytes of memory a batch takes in Redis: up to a third more than the bytes of its events. Returns 0
-- if `start`, the items that were already read, is the whole batch.
local function size_of(call, bid, start)
  if #start < choosing.START then return 0 end
  return redis.call('MEMORY', 'USAGE', call.keys.batch(bid), 'SAMPLES', 0)
end

function cutting.is_long(call, bid, start)
  return size_of(call, bid, start) > LONG_BYTES
end

-- Returns the maximum events and bytes of one delivery of a batch. The first attempt keeps to the subscriber's limits.
-- A later attempt must send the same events as the first, even if these limits are lower now. So it keeps only to
-- MAX_ATTEMPTED_BYTES. `start[3]` is the number of earlier attempts.
local function limits_of(lane, start)
  if start[3] ~= '0' then return { events = math.huge, bytes = MAX_ATTEMPTED_BYTES } end
  return { events = open_batches.max_events(lane.max_events), bytes = open_batches.max_bytes(lane.max_bytes) }
end

-- Reads the items of a batch's list, about EVENTS_PER_READ at a time, until the list ends or the items exceed `limits`.
-- `start` has the first items, which were read before.
local function read_items(call, bid, start, limits)
  if #start < choosing.START then return start end
  local batch = call.keys.batch(bid)
  local list = redis.call('LRANGE', batch, 0, batches.HEADER + EVENTS_PER_READ)
  local has_more, first_new, bytes = #list > batches.HEADER + EVENTS_PER_READ, batches.HEADER + 1, 1
  while has_more and #list - batches.HEADER <= limits.events do
    bytes = bytes + open_batches.bytes_of(list, first_new)
    if bytes > limits.bytes then break end
    first_new = #list + 1
    local more = redis.call('LRANGE', batch, #list, #list + EVENTS_PER_READ - 1)
    for _, event in ipairs(more) do list[#list + 1] = event end
    has_more = #more == EVENTS_PER_READ
  end
  return list
end

-- Returns a score in the subscriber's index: the score of a part that was split off a batch. The rest of the batch has
-- the score `score`, and has `events_left` events.
--
-- The part must come before the rest, and after all parts that were split off earlier. So its score is that of the rest
-- minus two for each of the `events_left` events. Each split lowers `score` by one (see `rename`) and leaves fewer
-- events. So each part gets a higher score than the part before:
--
--   split          events left  score of the rest  score of the part
--   (none)         250          9000
--   100 split off  150          8999               8999 - 2 * 150 = 8699
--   100 more        50          8998               8998 - 2 * 50 = 8898
--
-- The part must also come after all older batches, so its score is raised above theirs. There is one exception: if an
-- older batch has the score `score - 1`, the part gets the same score, and either may be delivered first. This cannot
-- happen for an `ordered` subscriber, because only its oldest batch is delivered.
local function score_of_part(index, score, events_left)
  local older = redis.call('ZRANGE', index, '(' .. score, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  local first = math.max(score - 2 * events_left, (tonumber(older) or 0) + 1)
  return string.format('%d', math.min(first, score - 1))
end

-- Gives the batch `old` the new UID `bid`. The batch keeps its list, history and time of closing. `list` begins with
-- the header of the batch. Returns two scores of the batch: in `batches:index`, and in the subscriber's index.
--
-- The score in the subscriber's index becomes 1 lower, for this reason: Redis sorts batches with the same score by UID.
-- With an unchanged score, the new UID could put the batch behind another batch of the same score.
local function rename(call, list, old, bid)
  local keys, token, created_ms, attempts = call.keys, unpack(list, 1, batches.HEADER)
  local index, queue = keys.batches_index(), keys.batches_queued(token)
  local place = redis.call('ZSCORE', index, old) or created_ms
  local score = string.format('%d', (redis.call('ZSCORE', queue, old) or created_ms * 1000) - 1)
  redis.call('RENAME', keys.batch(old), keys.batch(bid))
  if redis.call('EXISTS', keys.attempts(old)) == 1 then
    redis.call('RENAME', keys.attempts(old), keys.attempts(bid))
  end
  redis.call('ZADD', index, place, bid)
  redis.call('ZADD', queue, score, bid)
  for _, set in ipairs({ index, queue }) do redis.call('ZREM', set, old) end
  if attempts ~= '0' then redis.call('ZREM', keys.batches_retrying(token), old) end
  local closed_ms = open_batches.closed_ms(call, old)
  if closed_ms then redis.call('HSET', keys.batches_closed(), bid, closed_ms) end
  open_batches.forget_closed(call, { old })
  return place, score
end

-- Splits the batch `whole` in two, each with 0 attempts. The events up to the position `last` in `list` become a new
-- batch, and `worker` gets its job. The other events stay in the old batch, which gets a new UID and an instant job.
-- Returns the UID and the job of the new batch.
local function cut(call, given, worker, whole, list, last)
  local keys, token, created_ms, q = call.keys, list[1], list[2], given.choice.q
  local head, rest, items = uids.next(given.uids), uids.next(given.uids), { token, created_ms, '0' }
  local job, job_of_rest = jobs.delivery_of(head), jobs.delivery_of(rest)
  local place, score = rename(call, list, whole, rest)
  for i = batches.HEADER + 1, last do items[i] = list[i] end
  many.command('RPUSH', keys.batch(head), items)
  redis.call('LTRIM', keys.batch(rest), last, -1)
  local events_left = redis.call('LPUSH', keys.batch(rest), '0', created_ms, token) - batches.HEADER
  local closed_ms = open_batches.closed_ms(call, rest)
  if closed_ms then redis.call('HSET', keys.batches_closed(), head, closed_ms) end
  redis.call('ZADD', keys.batches_index(), place, head)
  local queue = keys.batches_queued(token)
  redis.call('ZADD', queue, score_of_part(queue, score, events_left), head)
  redis.call('HINCRBY', keys.gauge_batches(), token, 1)
  redis.call('SREM', keys.jobs_index(q), jobs.delivery_of(whole))
  redis.call('SADD', keys.jobs_index(q), job, job_of_rest)
  redis.call('LSET', keys.jobs_pending(q, worker), 0, job)
  jobs.make_instant_again(call, q, job_of_rest)
  return head, job
end

-- Adds as many events of the batch `bid` to the reply as one delivery may have. If events are left over, the added ones
-- become a new batch, and the job of the new batch replaces the job of `bid` in the reply. Returns three values:
--   - the UID of the batch that the worker delivers
--   - the number of its events
--   - the number of items added to the reply, each with one or several events (pieces.lua). It is 0 for a long batch,
--     whose events the worker reads itself
function cutting.add_events(call, given, worker, bid, start, lane)
  local limits = limits_of(lane, start)
  -- This script reads about LONG_BYTES of a batch at most, so as not to block Redis. If a longer batch fits into one
  -- delivery, the worker reads the events itself. If not, the script splits off the first LONG_BYTES of the batch, and
  -- the worker delivers these now.
  local size = limits.bytes > LONG_BYTES and size_of(call, bid, start) or 0
  if size > LONG_BYTES then
    local events = redis.call('LLEN', call.keys.batch(bid)) - batches.HEADER
    if size <= limits.bytes and events <= limits.events then return bid, events, 0 end
    limits.bytes = math.min(limits.bytes, LONG_BYTES)
  end
  local list, job_at = read_items(call, bid, start, limits), #given.reply_items
  local count, last = pieces.add_events(given, list, limits)
  if last < #list then
    bid, given.reply_items[job_at] = cut(call, given, worker, bid, list, last)
    start[3] = '0'
  end
  return bid, last - batches.HEADER, count
end

return cutting
