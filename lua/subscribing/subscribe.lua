#!lua
--[[
subscribe: create or change a subscriber, and subscribe it to exactly the given topics.

Unknown topics are created without a publisher, and are deleted with their last subscription. The topics in `foreign`
live in other partitions, where the caller has already noted that this partition has subscribers of them (mark_topics).
`settings` are stored in the subscriber's hash, under the same names. A setting that is missing keeps its stored value;
a new subscriber gets the default. If the call would exceed `max_topics` or `max_subscribers`, it changes nothing and
returns `too_many_topics` or `too_many_subscribers`.

The open batch gets the new max_events. It is due when the new timeout has passed from now, unless it was due earlier. A
new max_bytes closes it. A subscriber that was paused, or whose callback changed, is tried at once. But a subscriber
that an operator paused stays paused. If `ordered` changed, or the subscriber may have more deliveries in flight than
before, waiting jobs of the subscriber return to the queue. If the signing key is new, the older keys still sign for
`signing_overlap_ms` at most. The signing key `none` ends signing.
]]
local batches = include('delivering/batches')
local defaults = include('store/defaults')
local jobs = include('delivering/jobs')
local lanes = include('delivering/lanes')
local open_batches = include('delivering/open_batches')
local pausing = include('subscribing/pausing')
local topics = include('subscribing/topics')
local waiting = include('delivering/waiting')

local STORED_DEFAULTS = {
  'timeout', defaults.timeout_ms, 'max_events', defaults.max_events, 'health_points', defaults.perfect_health,
}

-- Maximum signing keys of a subscriber. Without a maximum, a client that gets no answer and repeats its request for a
-- new key again and again would add a key each time.
local MAX_KEYS = 4

-- True if the subscriber is new, and there are already `max` subscribers. Joins are stored as subscribers, but do not
-- count here, because they have a limit of their own.
local function has_no_room_for_it(call, token, max)
  local keys = call.keys
  if redis.call('SISMEMBER', keys.subscribers(), token) == 1 then return false end
  return redis.call('SCARD', keys.subscribers()) - redis.call('SCARD', keys.joins()) >= max
end

local function store_settings(call, subscriber, args, settings)
  -- `subscribed_at` is in µs, so that no two requests store the same time. A 410 (Gone) of a callback pauses the
  -- subscriber only if `subscribed_at` has not changed since the delivery began (nack.lua). If it has, the subscriber
  -- may have another callback now.
  redis.call('HSET', subscriber, 'callback', args.callback, 'uuid', args.uuid, 'subscribed_at', call.now_us)
  for name, value in pairs(settings) do redis.call('HSET', subscriber, name, value) end
  for i = 1, #STORED_DEFAULTS, 2 do redis.call('HSETNX', subscriber, STORED_DEFAULTS[i], STORED_DEFAULTS[i + 1]) end
end

-- Returns the signing keys of a subscriber after the key `newest` has replaced the newest key in `before`. The result
-- is a text such as `C B@1700000060000 A@1700000030000`: the newest key, then the replaced ones. A replaced key also
-- signs deliveries, until the time (ms) behind its `@`, which is at most `overlap_ms` from now. If `newest` is the
-- newest key already, returns `before`.
local function replaced_keys(call, before, newest, overlap_ms)
  local kept = { newest }
  for entry in before:gmatch('%S+') do
    local signer, ends = entry:match('^([^@]+)@?(%d*)$')
    if signer == newest and ends == '' then return before end
    local until_ms = math.min(ends == '' and math.huge or tonumber(ends or 0), call.now_ms + overlap_ms)
    if signer ~= newest and until_ms > call.now_ms and #kept < MAX_KEYS then
      kept[#kept + 1] = ('%s@%.0f'):format(signer, until_ms)
    end
  end
  return table.concat(kept, ' ')
end

local function store_signing_key(call, subscriber, key, overlap_ms)
  if key == 'none' then
    redis.call('HDEL', subscriber, 'signing')
  elseif key then
    local before = redis.call('HGET', subscriber, 'signing') or ''
    redis.call('HSET', subscriber, 'signing', replaced_keys(call, before, key, overlap_ms))
  end
end

-- Applies new settings to the open batch, the one that takes the subscriber's new events:
--   timeout     the batch is due after this time from now, unless it was due earlier
--   max_events  the batch is closed if it already has `max_events` events
--   max_bytes   a changed value closes the batch, because the bytes of its events may not have been counted
local function change_open_batch(call, token, settings, max_bytes_before)
  local keys, timeout_ms = call.keys, tonumber(settings.timeout)
  local entry = redis.call('HGET', keys.batches_open(), token)
  if not entry then return end
  local open = open_batches.read_entry(entry)
  if timeout_ms then
    local job, due_ms = jobs.delivery_of(open), call.now_ms + timeout_ms
    local before_ms = tonumber(redis.call('ZSCORE', keys.jobs_scheduled('main'), job))
    if before_ms and before_ms > due_ms then jobs.make_scheduled(call, 'main', job, due_ms) end
  end
  if settings.max_bytes and settings.max_bytes ~= max_bytes_before then
    open_batches.close_full(call, token, open)
  elseif settings.max_events then
    local max = open_batches.max_events(settings.max_events)
    redis.call('HSET', keys.batches_open(), token, open_batches.entry(open, max, max_bytes_before))
    local events = redis.call('LLEN', keys.batch(open)) - batches.HEADER
    if events >= max then open_batches.close_full(call, token, open) end
  end
end

return function(call, args)
  local keys, token = call.keys, args.token
  local subscriber = keys.subscriber(token)
  if has_no_room_for_it(call, token, args.max_subscribers) then return 'too_many_subscribers' end
  if topics.have_no_room(call, args.topics, args.max_topics) then return 'too_many_topics' end

  local settings = {}
  for _, each in ipairs(args.settings) do settings[each.name] = each.value end
  local callback, ordered, max_in_flight, max_bytes =
    unpack(redis.call('HMGET', subscriber, 'callback', 'ordered', 'max_in_flight', 'max_bytes'))
  redis.call('SADD', keys.subscribers(), token)
  open_batches.spread_closed(call)
  store_settings(call, subscriber, args, settings)
  store_signing_key(call, subscriber, args.signing_key, args.signing_overlap_ms)
  change_open_batch(call, token, settings, max_bytes)

  local resumes = pausing.paused_by(call, token) ~= 'operator' and pausing.lift(call, token)
  local moved = callback and callback ~= args.callback
  local order_changed = settings.ordered and settings.ordered ~= (ordered or '0')
  local width_before = lanes.width(call, max_in_flight, max_bytes, args)
  local width = lanes.width(call, settings.max_in_flight or max_in_flight, settings.max_bytes or max_bytes, args)
  if resumes or moved then
    pausing.try_at_once(call, token, args.lane_limit_max)
    -- The former callback may have asked for a long wait by `Retry-After`, for each batch that it refused.
    if moved then pausing.try_failed(call, token, args.lane_limit_max) end
  elseif order_changed or width > width_before then
    waiting.make_instant(call, token, args.lane_limit_max)
  end

  topics.subscribe_to(call, token, args.topics, args.foreign)
  return 'ok'
end
