-- Choosing: the next job that can run, and the batch that it delivers.

-- How many jobs that cannot run now one call steps over: bounds the time that it blocks Redis.
local MOST_PASSED_OVER = 500

-- What batch_job makes of a batch, but for its UID.
local DELIVERS = batch_job(('-'):rep(20)):sub(1, -21)

local function bid_of(job)
  if #job == #DELIVERS + 20 and job:sub(1, #DELIVERS) == DELIVERS then return job:sub(-20) end
  local ok, call = pcall(cmsgpack.unpack, job)
  local args = ok and type(call) == 'table' and call[1] == 'batch' and call[2]
  if type(args) == 'table' and type(args[1]) == 'string' then return args[1] end
end

-- What is read of a batch to know it. One that holds less needs no second look.
local START = HEAD + 10

-- The beginning of a batch's list; nothing if it is gone, or no batch.
local function start_of(bid)
  local start = redis.pcall('LRANGE', key.batch(bid), 0, START - 1)
  if tonumber(start[3]) then return start end
end

-- How many jobs wait for room in each share, less those that got it.
local sharing = {}
local function count_sharing(q)
  for _, share in ipairs(q == 'main' and SHARES or {}) do
    sharing[share] = redis.call('LLEN', key.share_jobs(share))
  end
end

-- Instant jobs are taken from their list as many at a time as there are workers; what nobody got goes back.
local popped, looked_at = {}, 0
local function next_instant(q, most)
  if looked_at == #popped then
    popped, looked_at = redis.call('RPOP', key.jobs_instant(q), most) or {}, 0
  end
  looked_at = looked_at + 1
  return popped[looked_at]
end

local function put_back(q)
  for i = #popped, looked_at + 1, -1 do redis.call('RPUSH', key.jobs_instant(q), popped[i]) end
end

-- First those that waited for room in their share, as far as it has any: one that gets none now would wait there again.
local function next_job(q, most)
  for _, share in ipairs(SHARES) do
    local jobs = sharing[share] or 0
    if jobs > 0 and share_room(share) > 0 then
      sharing[share] = jobs - 1
      return redis.call('LPOP', key.share_jobs(share))
    end
  end
  return next_instant(q, most)
end

local passed_over, no_more = 0, false

-- The next job that can run, made pending with the worker: the job, its batch, and the beginning of its list. most: how many
-- workers want one. (If its lane fails the job is in no state, and does not hold up the others until the sweep finds it.)
local function take_next(q, worker, most, limit, limit_max)
  while passed_over < MOST_PASSED_OVER do
    local job = next_job(q, most)
    if not job then
      no_more = true
      return
    end
    local bid = bid_of(job)
    local start = bid and start_of(bid)
    if bid and not start then
      redis.call('SREM', key.jobs_index(q), job)
      passed_over = passed_over + 1
    elseif bid and not enter_lane(worker, job, start[1], limit, limit_max) then
      passed_over = passed_over + 1
    else
      redis.call('LPUSH', key.jobs_pending(q, worker), job)
      return job, bid, start
    end
  end
end
