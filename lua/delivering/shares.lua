--[[
Shares: limit how many workers the subscribers of one kind may hold together: those that are slow or new (`slow`), those
that fail (`failing`), and the joins (`joins`). If each thread has five regular workers or more, the shares leave at
least an eighth of them free.

If a share is full, a job may wait for it in `shares:jobs:{share}`, where each lane has at most one job.

The last quarter of the share `slow` is kept for lanes without deliveries in flight. Otherwise subscribers that hang
could take the whole share. Deliveries that become slow while they run enter even a full share (slow_deliveries.lua),
and so could take the kept workers too. Even then, a lane gets its first worker if the lanes that hold exactly one
worker are fewer than the kept workers. A share of 32 workers:

  workers in use            0 to 23   24 to 31   32 or more
  a lane's first worker     enters    enters     enters if fewer than 8 lanes hold exactly one
  a lane's further worker   enters    waits      waits
]]
local live_workers = include('delivering/live_workers')
local shares = {}

-- From SHARES in src/store/job.ts. acquire serves the jobs that wait for a share in this order.
shares.NAMES = include('store/shares')
-- The part of the live workers that is regular: a thread has a spare worker for every three regular ones
-- (thread_workers.ts). The shares are parts of the regular workers only. If they were parts of all live workers, the
-- shares together could hold every regular worker, and other deliveries would have only spare workers.
local REGULAR_PART = 3 / 4
local PART_OF_REGULAR = { slow = 1 / 2, failing = 1 / 4, joins = 1 / 16 }
local KEPT_PART_OF_SLOW = 1 / 4

-- Returns a Redis key for each share. The function `key` makes the Redis key from the name of a share.
local function of_all(key)
  local names = {}
  for i, share in ipairs(shares.NAMES) do names[i] = key(share) end
  return unpack(names)
end

-- Returns how many lanes hold exactly one worker of the share `slow`. A worker whose delivery began in this script call
-- is not stored with its subscriber yet. It counts as a lane with one worker, so the number may be too high.
local function count_single_workers(call)
  local count, workers_of = 0, {}
  local workers = redis.call('SMEMBERS', call.keys.share_workers('slow'))
  for _, token in ipairs(redis.call('HMGET', call.keys.lanes_held(), unpack(workers))) do
    if token then
      workers_of[token] = (workers_of[token] or 0) + 1
    else
      count = count + 1
    end
  end
  for _, workers_of_lane in pairs(workers_of) do
    if workers_of_lane == 1 then count = count + 1 end
  end
  return count
end

-- Returns how many more lanes may get a first worker of the share `slow`, which is full.
local function room_beyond(call, kept)
  call.single_workers = call.single_workers or count_single_workers(call)
  return kept - call.single_workers
end

-- Returns how many more workers a share may use; 0 or less means none. `holds_some` is true if the lane that wants a
-- worker already has deliveries in flight.
function shares.room(call, share, holds_some)
  local size = math.max(1, math.floor(live_workers.count(call) * REGULAR_PART * PART_OF_REGULAR[share]))
  local free = size - redis.call('SCARD', call.keys.share_workers(share))
  if share ~= 'slow' then return free end
  local kept = math.floor(size * KEPT_PART_OF_SLOW)
  if holds_some then return free - kept end
  return free > 0 and free or room_beyond(call, kept)
end

-- Adds the worker to those that the share uses.
function shares.enter(call, share, worker)
  redis.call('SADD', call.keys.share_workers(share), worker)
  call.single_workers = nil
end

-- Call this when the delivery of `worker` has become slow. Adds the worker to the share `slow`, even if the share is
-- full, because the delivery already runs. Does nothing if the worker is in a share already.
function shares.enter_slow(call, worker)
  for _, share in ipairs(shares.NAMES) do
    if redis.call('SISMEMBER', call.keys.share_workers(share), worker) == 1 then return end
  end
  shares.enter(call, 'slow', worker)
end

-- Removes `workers` from all shares. Returns how many of them were in a share.
function shares.leave(call, workers)
  local keys, left = call.keys, 0
  -- Usually all shares are empty. One EXISTS command finds this out, and saves an SREM for each share.
  if redis.call('EXISTS', of_all(keys.share_workers)) == 0 then return 0 end
  for _, share in ipairs(shares.NAMES) do
    local had = redis.call('SREM', keys.share_workers(share), unpack(workers))
    if had > 0 and redis.call('EXISTS', keys.share_jobs(share)) == 1 then call.wakes.main = true end
    left = left + had
  end
  call.single_workers = nil
  return left
end

-- Returns, for each share, how many jobs wait because the share is full. The table is empty if no job waits.
function shares.count_jobs(call)
  local share_jobs, counts = call.keys.share_jobs, {}
  if redis.call('EXISTS', of_all(share_jobs)) == 0 then return counts end
  for _, share in ipairs(shares.NAMES) do counts[share] = redis.call('LLEN', share_jobs(share)) end
  return counts
end

return shares
