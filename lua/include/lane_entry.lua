-- Entering a lane.

-- The lane of each worker.
local function join_lanes(lane_of)
  local held, joined = {}, {}
  for worker, token in pairs(lane_of) do
    held[#held + 1] = worker
    held[#held + 1] = token
    joined[token] = (joined[token] or 0) + 1
  end
  if #held > 0 then redis.call('HSET', key.lanes_held(), unpack(held)) end
  for token, deliveries in pairs(joined) do
    redis.call('HINCRBY', key.lanes_in_flight(), token, deliveries)
  end
end

-- Of a subscriber's hash: first what its deliveries need to know, in the order in which they are told, then what its lane
-- depends on.
local LANE = {
  'callback', 'uuid', 'subscribed_at', 'health_points', 'max_attempts', 'max_age', 'signing',
  'throttled_until', 'sent', 'probe', 'paused_at', 'ordered', 'max_in_flight', 'slow',
}
local TOLD = 7

-- The lanes that this call has looked at, by subscriber. Who enters one is in it by join_lanes.
local lanes = {}
local function read_lane(token)
  local lane = lanes[token]
  if lane then return lane end
  lane = {}
  local values = redis.call('HMGET', key.subscriber(token), unpack(LANE))
  for i, name in ipairs(LANE) do lane[name] = values[i] end
  lane.told = { unpack(values, 1, TOLD) }
  lane.in_flight = tonumber(redis.call('HGET', key.lanes_in_flight(), token)) or 0
  lanes[token] = lane
  return lane
end

local function set_probe(token, lane, job)
  lane.probe = job
  if job then
    redis.call('HSET', key.subscriber(token), 'probe', job)
  else
    redis.call('HDEL', key.subscriber(token), 'probe')
  end
end

local function step_aside(token, lane, job)
  wait_aside(token, job)
  if lane.probe == job then set_probe(token, lane, false) end
  return false
end

-- The worker's delivery goes into the lane of its subscriber, or is put aside: false.
local function enter_lane(worker, job, token, limit, limit_max)
  local lane = read_lane(token)
  -- One that has left: the batch is only to be deleted.
  if not lane.callback then
    lane.in_flight = lane.in_flight + 1
    return true
  end
  if lane.paused_at then return step_aside(token, lane, job) end
  local ordered = lane.ordered == '1'
  if ordered and job ~= oldest_job(token) then
    local was_probe = lane.probe == job
    step_aside(token, lane, job)
    -- The oldest may have waited for it.
    if was_probe then bring_back(token, 1) end
    return false
  end
  local untl = tonumber(lane.throttled_until)
  local on_trial = untl or (tonumber(lane.sent) or 0) == 0
  local share = untl and 'failing' or (on_trial or lane.slow) and 'slow'
  -- The first that comes while the lane is shut is the one that will try it again.
  if share and lane.probe and lane.probe ~= job then return step_aside(token, lane, job) end
  if untl and untl > now then
    make_scheduled('main', job, untl)
    set_probe(token, lane, job)
    return false
  end
  local most = (ordered or on_trial) and 1 or lane_width(lane.max_in_flight, limit, limit_max)
  if lane.in_flight >= most then return step_aside(token, lane, job) end
  if share then
    if share_room(share) <= 0 then
      if lane.in_flight > 0 then return step_aside(token, lane, job) end
      redis.call('RPUSH', key.share_jobs(share), job)
      set_probe(token, lane, job)
      return false
    end
    redis.call('SADD', key.share_workers(share), worker)
  end
  if lane.probe == job then set_probe(token, lane, false) end
  lane.in_flight = lane.in_flight + 1
  return true
end
