#!lua flags=no-writes,allow-oom
--[[
find_delivery: read one batch, whatever its state. If `tokens` are given, the batch must be of one of these
subscribers. If `state` is `dead`, it must be a dead letter. Changes nothing.

`entries` has one entry, as in list_deliveries, or none if no batch was found. If the batch still exists, the entry has
all failed attempts that are stored. If it has ended, it is looked for in the delivery logs; `looked` is the number of
records in the logs that were searched. Without `tokens`, a call searches only some of the logs, as one step of a scan
over all. `place` says where the scan goes on; it is `0` at the beginning and at the end. `skipped` is the key of a dead
letter of this name, or of a log, that cannot be read, because another program has written the key.

If the batch waits for an attempt, `waits_for` says for what: `resume` (its subscriber is paused), `older_batch` (the
subscriber is ordered), `other_batch` (the subscriber's probe is first), `room` (in the lane), `worker`, or `time`.
`next_ms` is the time from which the batch may be tried: it is due then, and the subscriber's wait after failures is
over. `next_ms` is missing if this time has passed, or if the subscriber is paused.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local delivery_log = include('records/delivery_log')
local delivery_states = include('records/delivery_states')
local jobs = include('delivering/jobs')
local waiting = include('delivering/waiting')

-- Maximum failed attempts in the reply. The bus never stores more for a batch (attempts.lua), so all are in the reply.
local MAX_SHOWN_ATTEMPTS = 20
-- About how many logs one call searches. 500 take Redis 2 ms.
local LOGS_PER_CALL = 500

-- Returns the entry for the reply if `list`, a delivery log, has a record of the batch that is younger than a day.
local function in_log(call, list, ending, token, id)
  local position = redis.call('LPOS', list, id, 'RANK', -1)
  local record = position and redis.call('LINDEX', list, position + 1)
  if not record or delivery_log.time_of(record) < call.now_ms - delivery_log.KEPT_MS then return end
  return { id = id, subscriber = token, state = ending, record = record, last_attempts = {} }
end

-- Returns the names of the logs that this call searches, and the place at which the next call continues the scan over
-- all logs. If `tokens` are given, one call searches all their logs, because these are few.
local function logs_of(call, tokens, place)
  local names = {}
  for _, token in ipairs(tokens) do
    for _, ending in ipairs(delivery_log.ENDINGS) do names[#names + 1] = delivery_log.name_of(ending, token) end
  end
  if #tokens > 0 then return names, '0' end
  local next_place, found = unpack(redis.call('ZSCAN', call.keys.deliveries_logs(), place, 'COUNT', LOGS_PER_CALL))
  for i = 1, #found, 2 do names[#names + 1] = found[i] end
  return names, next_place
end

-- Looks for a batch in the logs `names`. Returns its entry or nil, the number of records in the logs that this function
-- has searched, and the key of a log that cannot be read.
local function in_logs(call, names, id)
  local looked, skipped = 0, nil
  for _, name in ipairs(names) do
    local ending, token = delivery_log.read_name(name)
    local list = delivery_log.list_of(call, ending, token)
    local items = calls.read_or_nil('LLEN', list)
    local entry = items and in_log(call, list, ending, token, id)
    looked = looked + (items or 0) / 2
    if not items then skipped = list end
    if entry then return entry, looked, skipped end
  end
  return nil, looked, skipped
end

-- Returns what a batch waits for, such as 'resume'. Also returns the earliest time (ms) of its next attempt if that is
-- in the future. Returns nothing if the batch is in flight or dead.
local function wait_of(call, seen, entry)
  local keys, token = call.keys, entry.subscriber
  if entry.state == 'in_flight' or entry.state == 'dead' then return end
  if delivery_states.is_paused(call, seen, token) then return 'resume' end
  local job = jobs.delivery_of(entry.id)
  local throttled_until, probe, ordered =
    unpack(redis.call('HMGET', keys.subscriber(token), 'throttled_until', 'probe', 'ordered'))
  local due_ms = redis.call('ZSCORE', keys.jobs_scheduled('main'), job)
  local next_ms = math.max(tonumber(due_ms) or 0, tonumber(throttled_until) or 0)
  if next_ms <= call.now_ms then next_ms = nil end
  if ordered == '1' and waiting.oldest_job(call, token) ~= job then return 'older_batch', next_ms end
  if redis.call('ZSCORE', keys.jobs_waiting(token), job) then return probe and 'other_batch' or 'room', next_ms end
  return next_ms and 'time' or 'worker', next_ms
end

return function(call, args)
  local seen, tokens, id, looked, place = delivery_states.begin(), args.tokens, args.id, 0, '0'
  local is_any = args.state ~= 'dead'
  local entry, skipped, waits_for, next_ms
  if is_any then entry = delivery_states.batch(call, seen, id) end
  if not entry then entry, skipped = delivery_states.dead_letter(call, id) end
  if entry then
    if not batches.is_of(tokens, entry.subscriber) then return { entries = {}, looked = 0, place = place } end
    delivery_states.describe(call, seen, entry, MAX_SHOWN_ATTEMPTS)
    waits_for, next_ms = wait_of(call, seen, entry)
  elseif is_any then
    local names
    names, place = logs_of(call, tokens, args.place)
    local unreadable
    entry, looked, unreadable = in_logs(call, names, id)
    skipped = skipped or unreadable
  end
  if entry then entry.place_ms = '0' end
  return {
    entries = { entry }, looked = looked, place = place, skipped = skipped, waits_for = waits_for, next_ms = next_ms,
  }
end
