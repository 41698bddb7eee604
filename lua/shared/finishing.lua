--[[
Finishing: deletes the jobs that workers have finished, and the batches that these jobs delivered.

The deliveries of one call belong to few subscribers. So the changes to subscribers and lanes are
collected first, and written once for each subscriber and lane.
]]
local batches = include('batches')
local calls = include('calls')
local drop_notices = include('drop_notices')
local jobs = include('jobs')
local lanes = include('lanes')
local leases = include('leases')
local subscribers = include('subscribers')
local waiting = include('waiting')
local finishing = {}

-- Returns an empty collection of finished jobs. For each subscriber, `taken` holds the accepted batches,
-- their number of events, the health points gained, and the duration of the last delivery (ms).
local function collection()
  return { workers = {}, lanes = {}, jobs = {}, bids = {}, lists = {}, taken = {} }
end

local function add_taken(collected, token, each, events)
  local sum = collected.taken[token] or { events = 0, heal = 0, bids = {} }
  collected.taken[token] = sum
  sum.events = sum.events + events
  sum.heal = sum.heal + each.heal
  sum.took_ms = each.took_ms
  sum.bids[#sum.bids + 1] = each.bid
end

-- Finishes one job. Returns the number of events in its batch, or 0 if the job has no batch or the batch is
-- gone. Returns nothing if the worker does not hold the job. `lane` is the token of the subscriber whose lane
-- the worker is in, or false.
local function finish(call, q, each, lane, lease_of, collected)
  local job = each.job or each.bid and jobs.delivery_of(each.bid) or ''
  if not leases.take_job(call, q, each.worker, job, each.lease, lease_of) then return end
  collected.workers[#collected.workers + 1] = each.worker
  collected.lanes[#collected.lanes + 1] = lane
  collected.jobs[#collected.jobs + 1] = job
  if not each.bid then return 0 end
  collected.bids[#collected.bids + 1] = each.bid
  local batch = call.keys.batch(each.bid)
  local token = lane or redis.call('LINDEX', batch, 0)
  local events = redis.call('LLEN', batch) - batches.HEADER
  -- The batch no longer exists.
  if not token or events < 0 then return 0 end
  collected.lists[#collected.lists + 1] = batch
  collected.lists[#collected.lists + 1] = call.keys.attempts(each.bid)
  add_taken(collected, token, each, events)
  return events
end

-- Records the accepted batches of one subscriber. Returns a true value if they ended the subscriber's trial.
local function settle_subscriber(call, token, sum, slow_ms)
  redis.call('ZREM', call.keys.batches_queued(token), unpack(sum.bids))
  batches.count_out(call, token, #sum.bids, sum.events)
  drop_notices.forget(call, token, sum.bids)
  return subscribers.heal(call, token, sum.events, sum.heal, sum.took_ms, slow_ms)
end

-- Brings back waiting jobs of a lane in which `ended` deliveries have ended. Two come back for each, so that
-- the lane can double in each round, but never more than it has room for. If the subscriber's trial has ended
-- (`recovered`), as many come back as the lane has room for.
local function go_on(call, lane, ended, recovered, args)
  if redis.call('EXISTS', call.keys.jobs_waiting(lane)) == 0 then return end
  local own_limit = redis.call('HGET', call.keys.subscriber(lane), 'max_in_flight')
  local in_flight = tonumber(redis.call('HGET', call.keys.lanes_in_flight(), lane)) or 0
  local room = math.max(1, lanes.width(call, own_limit, args) - in_flight)
  waiting.bring_back(call, lane, recovered and room or math.min(2 * ended, room))
end

-- Writes what was collected. An error for one subscriber does not stop the others.
local function settle(call, collected, args)
  local keys = call.keys
  redis.call('HDEL', keys.leases(), unpack(collected.workers))
  redis.call('SREM', keys.jobs_index(args.q), unpack(collected.jobs))
  if #collected.bids > 0 then redis.call('ZREM', keys.batches_index(), unpack(collected.bids)) end
  if #collected.lists > 0 then redis.call('UNLINK', unpack(collected.lists)) end
  local left, recovered = lanes.leave_all(call, collected.workers, collected.lanes), {}
  for token, sum in pairs(collected.taken) do
    recovered[token] = calls.try(call, settle_subscriber, token, sum, args.slow_ms)
  end
  for lane, ended in pairs(left) do
    calls.try(call, go_on, lane, ended, recovered[lane], args)
  end
end

-- Finishes each job whose worker still holds it under the given lease. `args` are the arguments of the
-- script: q, lease_ms, lane_limit, lane_limit_max, slow_ms. Returns a list with the number of events of each
-- job's batch, or false if the worker does not hold the job. Also returns whether waiting jobs came back.
-- These are not announced, so the caller must assign them or return the number of ready jobs.
function finishing.finish_all(call, args, finished)
  local workers, removed, collected = {}, {}, collection()
  if #finished == 0 then return removed, false end
  for i, each in ipairs(finished) do workers[i] = each.worker end
  local lease_of, lane_of = leases.of(call, workers, args.lease_ms), lanes.of(call, workers)
  for i, each in ipairs(finished) do
    removed[i] = calls.try(call, finish, args.q, each, lane_of[i], lease_of, collected) or false
  end
  if #collected.workers == 0 then return removed, false end
  local announced = call.wakes.main
  settle(call, collected, args)
  local came_back = call.wakes.main
  call.wakes.main = announced
  return removed, came_back
end

return finishing
