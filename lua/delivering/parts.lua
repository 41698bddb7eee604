--[[
Parts: cuts a batch in two. The *part* has the first events, and is delivered now. The *rest* has the other events, and
waits in the place of the batch.

Both get new UIDs. If a failover loses the cut, and the subscriber's limits are higher then, all events are delivered
under the old UID. A receiver that had got only the part under the old UID would ignore all other events.

In the subscriber's index, batches that one script call opened have the same score, and Redis sorts them by UID. The
rest must come before the other ones, but its new UID may come after theirs. So the rest gets a score that is one lower.
The part must come before the rest, and after the parts that were cut off earlier. So it gets the score of the rest
minus two for each event that is left:

  cut            events left  score of the rest  score of the part
  (none)         250          9000
  100 cut off    150          8999               8999 - 2 * 150 = 8699
  100 more        50          8998               8998 - 2 *  50 = 8898
]]
local batches = include('delivering/batches')
local jobs = include('delivering/jobs')
local many = include('store/many')
local open_batches = include('delivering/open_batches')
local uids = include('store/uids')
local parts = {}

-- Returns the score of a part in the subscriber's index `queue`. The part must come before the rest, and after every
-- older batch. So if an older batch reaches the score of the table above, the part gets the next score after that of
-- the older batch. There may be no score between the older batch and the rest. Then the part gets the score of the older
-- batch, and either of the two may be delivered first. An `ordered` subscriber has no older batch here, because only
-- its oldest batch is delivered.
local function score_of_part(queue, score_of_rest, events_left)
  local below = redis.call('ZRANGE', queue, '(' .. score_of_rest, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  local after_older = (tonumber(below[2]) or 0) + 1
  return string.format('%d', math.min(math.max(score_of_rest - 2 * events_left, after_older), score_of_rest - 1))
end

-- Gives a batch a new UID in the sorted set `index`, and subtracts `lowered` from its score. If the set lacks the
-- batch, its score counts as `default`. Returns the new score.
local function rename_in(index, old, new, default, lowered)
  local score = redis.call('ZSCORE', index, old) or default
  if lowered > 0 then score = string.format('%d', score - lowered) end
  redis.call('ZADD', index, score, new)
  redis.call('ZREM', index, old)
  return score
end

-- Replaces the entries of the batch `whole` in the indexes by those of the two batches that it is cut into, `part` and
-- `rest`. Counts one batch more in the gauge.
local function cut_entries(call, whole, part, rest, list, events_left)
  local keys, token, created_ms, attempts = call.keys, unpack(list, 1, batches.HEADER)
  local index, queue = keys.batches_index(), keys.batches_queued(token)
  local score = rename_in(queue, whole, rest, created_ms * 1000, 1)
  redis.call('ZADD', queue, score_of_part(queue, score, events_left), part)
  redis.call('ZADD', index, rename_in(index, whole, rest, created_ms, 0), part)
  if attempts ~= '0' then redis.call('ZREM', keys.batches_retrying(token), whole) end
  redis.call('HINCRBY', keys.gauge_batches(), token, 1)
end

-- Moves the events up to the position `last` of `list` to the list of the part, and all others to that of the rest.
-- Both get 0 attempts.
local function cut_list(call, whole, part, rest, list, last)
  local token, created_ms = list[1], list[2]
  local items = { token, created_ms, '0' }
  for i = batches.HEADER + 1, last do items[i] = list[i] end
  many.command('RPUSH', call.keys.batch(part), items)
  redis.call('RENAME', call.keys.batch(whole), call.keys.batch(rest))
  redis.call('LTRIM', call.keys.batch(rest), last, -1)
  redis.call('LPUSH', call.keys.batch(rest), '0', created_ms, token)
end

-- Gives the history of failed attempts, if there is one, to the rest.
local function rename_attempts(call, whole, rest)
  local attempts = call.keys.attempts(whole)
  if redis.call('EXISTS', attempts) == 1 then redis.call('RENAME', attempts, call.keys.attempts(rest)) end
end

-- Stores the time at which the batch was closed for the part and for the rest, if one is stored for the batch.
local function copy_closed(call, whole, part, rest)
  local closed_ms = open_batches.closed_ms(call, whole)
  if closed_ms then redis.call('HSET', call.keys.batches_closed(), part, closed_ms, rest, closed_ms) end
  open_batches.forget_closed(call, { whole })
end

-- Gives the job of the part to `worker`, and makes the job of the rest instant. Returns the job of the part.
local function replace_job(call, q, worker, whole, part, rest)
  local job, job_of_rest = jobs.delivery_of(part), jobs.delivery_of(rest)
  redis.call('SREM', call.keys.jobs_index(q), jobs.delivery_of(whole))
  redis.call('SADD', call.keys.jobs_index(q), job, job_of_rest)
  redis.call('LSET', call.keys.jobs_pending(q, worker), 0, job)
  jobs.make_instant_again(call, q, job_of_rest)
  return job
end

-- Cuts the batch `whole`, whose job `worker` has. The part gets the events up to the position `last` in `list`, which
-- has the first items of the batch's list, the header among them. Returns the UID and the job of the part.
function parts.cut_off(call, given, worker, whole, list, last)
  local part, rest = uids.next(given.uids), uids.next(given.uids)
  local events_left = batches.count_events(call, whole) - (last - batches.HEADER)
  cut_entries(call, whole, part, rest, list, events_left)
  cut_list(call, whole, part, rest, list, last)
  rename_attempts(call, whole, rest)
  copy_closed(call, whole, part, rest)
  return part, replace_job(call, given.choice.q, worker, whole, part, rest)
end

return parts
