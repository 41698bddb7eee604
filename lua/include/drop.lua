-- Dropping: deleting batches that were not delivered, with their jobs. What is the same for all of a call is written once
-- (settle_drops): a command for each batch took twice as long.

-- The jobs that workers hold, and how many: their batches are being delivered right now, and are not dropped.
local function jobs_held()
  local held, count = {}, 0
  for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index('main'))) do
    local job = redis.call('LINDEX', key.jobs_pending('main', worker), 0)
    if job then
      held[job] = true
      count = count + 1
    end
  end
  return held, count
end

local dropped = { bids = {}, jobs = {}, lists = {} }
-- By subscriber: the batches and jobs, and how many events there were.
local dropped_of = {}
-- The batches and jobs that go.
local goes = {}

-- Without a subscriber: its list is gone, and nobody knows whose it was.
local function drop_batch(bid, job, token, events)
  goes[bid], goes[job] = true, true
  dropped.bids[#dropped.bids + 1] = bid
  dropped.jobs[#dropped.jobs + 1] = job
  dropped.lists[#dropped.lists + 1] = key.batch(bid)
  dropped.lists[#dropped.lists + 1] = key.attempts(bid)
  if not token then return end
  local its = dropped_of[token] or { bids = {}, jobs = {}, events = 0 }
  dropped_of[token] = its
  its.bids[#its.bids + 1] = bid
  its.jobs[#its.jobs + 1] = job
  its.events = its.events + events
end

-- Their jobs may have been those that bring back what waits aside, so as many take their place: in an ordered lane the job of
-- the batch that is the oldest now.
local function settle_lane(token, jobs)
  local aside = redis.call('ZREM', key.jobs_waiting(token), unpack(jobs))
  if aside == #jobs then return end
  local probe = redis.call('HGET', key.subscriber(token), 'probe')
  if probe and goes[probe] then redis.call('HDEL', key.subscriber(token), 'probe') end
  bring_back(token, #jobs - aside)
end

-- Jobs that were instant stay in that list, which may be long, until acquire finds no batch for them.
local function settle_drops()
  if #dropped.bids == 0 then return end
  redis.call('UNLINK', unpack(dropped.lists))
  redis.call('ZREM', key.batches_index(), unpack(dropped.bids))
  redis.call('SREM', key.jobs_index('main'), unpack(dropped.jobs))
  redis.call('ZREM', key.jobs_scheduled('main'), unpack(dropped.jobs))
  for token, its in pairs(dropped_of) do
    redis.call('ZREM', key.batches_queued(token), unpack(its.bids))
    local open = open_bid(token)
    if goes[open] then shut(token, open) end
    count_out(token, #its.bids, its.events)
    settle_lane(token, its.jobs)
  end
end
