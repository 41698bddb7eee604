--[[
Lane entry: decides whether a delivery may begin now. If not, decides where its job waits. The tests of `enter` are the
rows of the second table in INTERNALS.md, Lanes, in that order.

A subscriber that fails, is slow or new, or is a join may have a *probe*: the one of its jobs that is tried next. Its
other jobs wait meanwhile. `choice` is the state of choosing.lua.
]]
local jobs = include('delivering/jobs')
local join_tokens = include('flow/joins/join_tokens')
local lanes = include('delivering/lanes')
local shares = include('delivering/shares')
local waiting = include('delivering/waiting')
local lane_entry = {}

-- Fields of a subscriber's hash that decide whether a delivery may begin, and how large it may be.
local FIELDS = {
  'callback', 'throttled_until', 'sent', 'probe', 'paused_at', 'ordered', 'max_in_flight', 'slow', 'max_events',
  'max_bytes',
}

-- Returns a table with the FIELDS of a subscriber (false for a missing field), with `is_new` and `is_ordered`, and with
-- `in_flight`: the number of the subscriber's deliveries in flight, including those that this script call has begun but
-- not yet stored.
function lane_entry.read(call, choice, token)
  local lane = choice.lanes[token]
  if lane then return lane end
  lane = { token = token, in_flight = tonumber(redis.call('HGET', call.keys.lanes_in_flight(), token)) or 0 }
  local values = redis.call('HMGET', call.keys.subscriber(token), unpack(FIELDS))
  for i, field in ipairs(FIELDS) do lane[field] = values[i] end
  lane.throttled_until = tonumber(lane.throttled_until)
  lane.is_new, lane.is_ordered = (tonumber(lane.sent) or 0) == 0, lane.ordered == '1'
  choice.lanes[token] = lane
  return lane
end

-- Makes `job` the subscriber's probe. If `job` is false, the subscriber has no probe any more.
local function set_probe(call, lane, job)
  lane.probe = job
  if job then
    redis.call('HSET', call.keys.subscriber(lane.token), 'probe', job)
  else
    redis.call('HDEL', call.keys.subscriber(lane.token), 'probe')
  end
end

-- Makes a job wait with its subscriber's other waiting jobs. If it was the probe, the subscriber has no probe any more,
-- so that another of its jobs can run. Returns false, because no delivery begins.
local function make_wait(call, lane, job)
  waiting.add(call, lane.token, job)
  if lane.probe == job then set_probe(call, lane, false) end
  return false
end

-- Makes a job of an `ordered` subscriber wait, because the subscriber must accept older batches first. Returns false,
-- because no delivery begins.
local function wait_for_turn(call, lane, job)
  local was_probe = lane.probe == job
  make_wait(call, lane, job)
  -- This job was the probe, so the job of the oldest batch had to wait for it. Only that job may run, so it becomes
  -- instant now.
  if was_probe then waiting.make_instant(call, lane.token, 1) end
  return false
end

-- If a share, such as the workers for slow subscribers, has a free worker, counts `worker` in the share, and returns
-- true. A quarantine never waits (see `may_have_another`), and is counted even if the share is full. In all other cases
-- makes the job wait, and returns false:
--   - If the subscriber has deliveries in flight, the job waits among the subscriber's jobs until a delivery ends.
--   - If not, the job becomes the subscriber's probe, and waits in the list of the share until a worker is free. The
--     subscriber's other jobs wait for the probe, so the list has at most one job of each subscriber.
local function enter_share(call, choice, lane, share, worker, job)
  local holds_some = lane.in_flight > 0
  if choice.kind == 'quarantine' or shares.room(call, share, holds_some) > 0 then
    shares.enter(call, share, worker)
    return true
  end
  if holds_some then return make_wait(call, lane, job) end
  redis.call('RPUSH', call.keys.share_jobs(share), job)
  set_probe(call, lane, job)
  return false
end

-- Makes a job of a failing subscriber its probe, which waits until the subscriber may be tried again. Returns false,
-- because no delivery begins.
local function wait_as_probe(call, lane, job)
  jobs.make_scheduled(call, 'main', job, lane.throttled_until)
  set_probe(call, lane, job)
  return false
end

-- Returns true if a subscriber that has deliveries in flight may have another one.
local function may_have_another(call, choice, lane)
  if lane.is_ordered or lane.throttled_until or lane.is_new then return false end
  -- If a quarantine made the job of a suspect wait, an ordinary worker would take the job later, and leave it to the
  -- quarantine again, and so on for ever.
  if choice.kind == 'quarantine' then return true end
  if lane.in_flight >= lanes.width(call, lane.max_in_flight, lane.max_bytes, choice.args) then return false end
  return choice.kind ~= 'spare' or lane.in_flight < lanes.spare_width(call, lane.in_flight, choice.entered)
end

-- Returns the share that limits the deliveries to the subscribers of this kind, or a false value if none does.
local function share_of(lane)
  if lane.callback == join_tokens.CALLBACK then return 'joins' end
  if lane.throttled_until then return 'failing' end
  return (lane.is_new or lane.slow) and 'slow'
end

-- Counts a delivery that begins, so that this script call keeps to the limits when it begins further deliveries.
-- Returns true.
local function begin(choice, lane)
  lane.in_flight = lane.in_flight + 1
  choice.entered = choice.entered + 1
  return true
end

-- Begins a delivery to the subscriber `token` if that is allowed now, and returns true. Otherwise puts the job where it
-- must wait, and returns false.
function lane_entry.enter(call, choice, worker, job, token)
  local lane = lane_entry.read(call, choice, token)
  -- Without a callback, the subscriber has left. A worker may take the job: it will only delete the batch.
  if not lane.callback then return begin(choice, lane) end
  if lane.paused_at then return make_wait(call, lane, job) end
  if lane.is_ordered and job ~= waiting.oldest_job(call, token) then return wait_for_turn(call, lane, job) end
  local share = share_of(lane)
  if share and lane.probe and lane.probe ~= job then return make_wait(call, lane, job) end
  if lane.throttled_until and lane.throttled_until > call.now_ms then return wait_as_probe(call, lane, job) end
  if lane.in_flight > 0 and not may_have_another(call, choice, lane) then return make_wait(call, lane, job) end
  if share and not enter_share(call, choice, lane, share, worker, job) then return false end
  if lane.probe == job then set_probe(call, lane, false) end
  return begin(choice, lane)
end

return lane_entry
