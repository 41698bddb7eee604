-- Finishing: jobs are forgotten, and the batches that they delivered deleted. What that means for their subscribers and
-- lanes is written once for each when all are done: the deliveries of a call are of few.

-- Who takes longer over a batch is slow.
local SLOW_MS = 1000
-- A finished job in ARGV: worker, job, lease, bid, heal, took_ms.
local FINISHED_LENGTH = 6

local done = { workers = {}, lanes = {}, jobs = {}, bids = {}, lists = {} }
-- By subscriber: how many events were taken, what they heal, how long the last batch took, and the batches.
local taken = {}

-- Under the lease by which the worker holds the job; nothing if it does not. Else how many events its batch held. lane: the
-- subscriber of the batch, if it is in a lane.
local function finish(q, lease_of, lane, worker, job, lease, bid, heal, took_ms)
  if job == '' and bid ~= '' then job = batch_job(bid) end
  if not take_from(q, worker, job, lease, lease_of) then return end
  done.workers[#done.workers + 1] = worker
  done.lanes[#done.lanes + 1] = lane
  done.jobs[#done.jobs + 1] = job
  if bid == '' then return 0 end
  done.bids[#done.bids + 1] = bid
  local batch = key.batch(bid)
  local token = lane or redis.call('LINDEX', batch, 0)
  local events = redis.call('LLEN', batch) - HEAD
  -- The batch is gone.
  if not token or events < 0 then return 0 end
  done.lists[#done.lists + 1] = batch
  done.lists[#done.lists + 1] = key.attempts(bid)
  local sum = taken[token] or { events = 0, heal = 0, bids = {} }
  taken[token] = sum
  sum.events = sum.events + events
  sum.heal = sum.heal + tonumber(heal)
  sum.took_ms = tonumber(took_ms)
  sum.bids[#sum.bids + 1] = bid
  return events
end

-- True if that ended its trial.
local function heal_subscriber(token, sum)
  local subscriber = key.subscriber(token)
  local callback, health, throttled, slow, probe =
    unpack(redis.call('HMGET', subscriber, 'callback', 'health_points', 'throttled_until', 'slow', 'probe'))
  if not callback then return false end
  local first = redis.call('HINCRBY', subscriber, 'sent', sum.events) == sum.events
  redis.call('HSET', subscriber, 'health_points', health_after(health, sum.heal))
  if sum.took_ms > SLOW_MS then
    redis.call('HSET', subscriber, 'slow', 1)
  elseif slow then
    redis.call('HDEL', subscriber, 'slow')
  end
  if throttled then redis.call('HDEL', subscriber, 'throttled_until') end
  if probe then release_probe(token, probe) end
  return probe or throttled or first
end

local function settle_subscriber(token, sum)
  redis.call('ZREM', key.batches_queued(token), unpack(sum.bids))
  count_out(token, #sum.bids, sum.events)
  forget_gap(token, sum.bids)
  return heal_subscriber(token, sum)
end

-- A lane of which deliveries have ended goes on: with one for each, and one more each where it is narrower than it may be, so
-- that it doubles with each round. One whose trial is over opens at once.
local function go_on(lane, ended, recovered, limit, limit_max)
  if redis.call('EXISTS', key.jobs_waiting(lane)) == 0 then return end
  local own_limit = redis.call('HGET', key.subscriber(lane), 'max_in_flight')
  local in_flight = tonumber(redis.call('HGET', key.lanes_in_flight(), lane)) or 0
  local room = math.max(1, lane_width(own_limit, limit, limit_max) - in_flight)
  bring_back(lane, recovered and room or math.min(2 * ended, room))
end

-- What one subscriber's failure does is nothing to the others. Answers whether jobs came back, of which nobody is told yet.
local function settle_finished(q, limit, limit_max)
  if #done.workers == 0 then return false end
  local told = wakes.main
  redis.call('HDEL', key.leases(), unpack(done.workers))
  redis.call('SREM', key.jobs_index(q), unpack(done.jobs))
  if #done.bids > 0 then redis.call('ZREM', key.batches_index(), unpack(done.bids)) end
  if #done.lists > 0 then redis.call('UNLINK', unpack(done.lists)) end
  local lanes_left, recovered = leave_lanes(done.workers, done.lanes), {}
  for token, sum in pairs(taken) do
    recovered[token] = try(settle_subscriber, token, sum)
  end
  for lane, ended in pairs(lanes_left) do
    try(go_on, lane, ended, recovered[lane], limit, limit_max)
  end
  local came_back = wakes.main
  wakes.main = told
  return came_back
end

-- The n finished jobs that begin at ARGV[first]. Answers a list of held, removed for each, and whether jobs came back.
local function finish_all(q, first, n, lease_ms, limit, limit_max)
  local workers, acks = {}, {}
  if n == 0 then return acks, false end
  for i = 1, n do workers[i] = ARGV[first + (i - 1) * FINISHED_LENGTH] end
  local lease_of, lanes = leases_of(workers, lease_ms), lanes_of(workers)
  for i = 1, n do
    local at = first + (i - 1) * FINISHED_LENGTH
    local removed = try(finish, q, lease_of, lanes[i], unpack(ARGV, at, at + FINISHED_LENGTH - 1))
    acks[#acks + 1] = removed and 1 or 0
    acks[#acks + 1] = removed or 0
  end
  return acks, settle_finished(q, limit, limit_max)
end
