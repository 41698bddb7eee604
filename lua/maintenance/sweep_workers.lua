#!lua flags=allow-oom
--[[
sweep_workers: mend what is wrong with what workers hold.

Who holds a job is in its queue's pending index, and in the lane of the subscriber to which it delivers; who holds none has
no lease and is in no lane. Each lane counts the workers that are in it.

KEYS
  schema                     string  names the partition
TOUCHES
  batch:{bid}                list
  batches:index:{token}      zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
  jobs:waiting:{token}       zset
  lanes:in_flight            hash
  lanes:held                 hash
  shares:jobs:{share}        list
  shares:workers:{share}     set
  leases                     hash
  subscriber:{token}         hash    reads probe, paused_at, ordered
ARGV
  worker, bid…               a worker; the batch that it was seen to deliver, or empty; again and again
RETURNS
  a list of kind, worker or subscriber: what was mended; again and again
]]
-- include: jobs
-- include: waiting
-- include: lanes
-- include: lane_entry

local findings = {}
local function found(kind, name)
  findings[#findings + 1] = kind
  findings[#findings + 1] = name
end

-- True if it holds a job of the queue.
local function holds(q, worker)
  if redis.call('EXISTS', key.jobs_pending(q, worker)) == 0 then return false end
  if redis.call('SADD', key.jobs_pending_index(q), worker) == 1 then found('worker_unindexed', worker) end
  return true
end

local function go_on(lane)
  if lane then bring_back(lane, 1) end
  return lane
end

-- Not without a lease, under which alone it could settle the job: a worker of the Ruby Routemaster has neither.
local function enter(worker, bid)
  local token = redis.pcall('LINDEX', key.batch(bid), 0)
  -- It may hold another by now.
  if type(token) ~= 'string' or redis.call('LINDEX', key.jobs_pending('main', worker), 0) ~= batch_job(bid) then return end
  if redis.call('HGET', key.lanes_held(), worker) == token then return end
  if redis.call('HEXISTS', key.leases(), worker) == 0 then return end
  go_on(leave_lane(worker))
  join_lanes({ [worker] = token })
  found('worker_out_of_lane', worker)
end

local function check(worker, bid)
  local delivers, helps = holds('main', worker), holds('aux', worker)
  if delivers and bid ~= '' then enter(worker, bid) end
  if delivers then return end
  local idle = not helps and redis.call('HDEL', key.leases(), worker) == 1
  idle = go_on(leave_lane(worker)) or leave_shares({ worker }) > 0 or idle
  if idle then found('worker_idle', worker) end
end

local function count_lanes()
  local counted = {}
  for _, token in ipairs(redis.call('HVALS', key.lanes_held())) do
    counted[token] = (counted[token] or 0) + 1
  end
  local shown = redis.call('HGETALL', key.lanes_in_flight())
  for i = 1, #shown, 2 do
    local token = shown[i]
    if tonumber(shown[i + 1]) == counted[token] then
      counted[token] = nil
    elseif not counted[token] then
      redis.call('HDEL', key.lanes_in_flight(), token)
      found('lane_miscounted', token)
    end
  end
  for token, workers in pairs(counted) do
    redis.call('HSET', key.lanes_in_flight(), token, workers)
    found('lane_miscounted', token)
  end
end

for i = 1, #ARGV, 2 do
  check(ARGV[i], ARGV[i + 1])
end
count_lanes()
announce()
return findings
