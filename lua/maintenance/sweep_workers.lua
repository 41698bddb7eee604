#!lua flags=allow-oom
--[[
sweep_workers: check and repair the records of workers that seemed wrong to the caller (`suspects`), and recount all
lanes (the deliveries in flight of each subscriber). Returns the findings.

A worker that holds a job is in the pending index of the job's queue. If the job is a delivery, the worker is also among
those that deliver to the subscriber (its lane). A worker without a job has no lease, and is in no lane (lanes.lua) and
no share (shares.lua). The counter of each lane equals the number of workers in it.

`worker` of a suspect is the worker's id. `bid` is the batch that the caller saw the worker deliver, if it saw one.
]]
local calls = include('store/calls')
local findings = include('maintenance/findings')
local jobs = include('delivering/jobs')
local lanes = include('delivering/lanes')
local shares = include('delivering/shares')
local waiting = include('delivering/waiting')

-- Returns true if the worker holds a job of the queue. If such a worker is missing from the index of workers that hold
-- jobs, adds it there.
local function holds_job(call, q, worker, found)
  if redis.call('EXISTS', call.keys.jobs_pending(q, worker)) == 0 then return false end
  local unindexed = redis.call('SADD', call.keys.jobs_pending_index(q), worker) == 1
  if unindexed then findings.add(found, 'worker_unindexed', worker) end
  return true
end

local function leave_lane(call, worker)
  local token = lanes.leave(call, worker)
  if token then waiting.make_instant(call, token, 1) end
  return token ~= nil
end

-- Adds a worker to the lane of the subscriber to which it delivers the batch `bid`, if the lane lacks the worker. Does
-- nothing if the worker no longer holds the job of this batch, or has no lease.
local function enter_lane(call, worker, bid, found)
  local keys = call.keys
  local token = calls.read_or_nil('LINDEX', keys.batch(bid), 0)
  -- The worker may have ended this delivery and taken another job since the sweep saw it.
  local holds = redis.call('LINDEX', keys.jobs_pending('main', worker), 0) == jobs.delivery_of(bid)
  if not token or not holds then return end
  if redis.call('HGET', keys.lanes_held(), worker) == token then return end
  -- A worker without a lease, such as one of the Ruby Routemaster, is not added. It would not leave the lane when its
  -- delivery ends, so its place there would stay taken for ever.
  if redis.call('HEXISTS', keys.leases(), worker) == 0 then return end
  leave_lane(call, worker)
  lanes.join(call, { [worker] = token })
  findings.add(found, 'worker_out_of_lane', worker)
end

local function check(call, worker, bid, found)
  local delivers = holds_job(call, 'main', worker, found)
  local helps = holds_job(call, 'aux', worker, found)
  if delivers and bid then enter_lane(call, worker, bid, found) end
  if delivers then return end
  local had_lease = not helps and redis.call('HDEL', call.keys.leases(), worker) == 1
  local had_lane = leave_lane(call, worker)
  local had_share = shares.leave(call, { worker }) > 0
  if had_lease or had_lane or had_share then findings.add(found, 'worker_idle', worker) end
end

-- Corrects the stored number of deliveries in flight of each subscriber: it must be the number of workers that deliver
-- to the subscriber now.
local function count_lanes(call, found)
  local in_flight, counted = call.keys.lanes_in_flight(), {}
  for _, token in ipairs(redis.call('HVALS', call.keys.lanes_held())) do
    counted[token] = (counted[token] or 0) + 1
  end
  local shown = redis.call('HGETALL', in_flight)
  for i = 1, #shown, 2 do
    local token = shown[i]
    if not counted[token] then
      redis.call('HDEL', in_flight, token)
      findings.add(found, 'lane_miscounted', token)
    elseif tonumber(shown[i + 1]) == counted[token] then
      counted[token] = nil
    end
  end
  for token, workers in pairs(counted) do
    redis.call('HSET', in_flight, token, workers)
    findings.add(found, 'lane_miscounted', token)
  end
end

return function(call, args)
  local found = {}
  for _, suspect in ipairs(args.suspects) do check(call, suspect.worker, suspect.bid, found) end
  count_lanes(call, found)
  return found
end
