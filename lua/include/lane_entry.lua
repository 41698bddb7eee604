-- Entering a lane.

-- A lane that fails has one job scheduled to try its subscriber again: its probe. The first that comes is it.
local function await_probe(job, token, untl)
  local subscriber = key.subscriber(token)
  local probe = redis.call('HGET', subscriber, 'probe')
  if probe and probe ~= job then
    redis.call('RPUSH', key.jobs_waiting(token), job)
  else
    redis.call('HSET', subscriber, 'probe', job)
    make_scheduled('main', job, untl)
  end
end

-- The worker's delivery goes into the lane of its subscriber, or is put aside: false.
local function enter_lane(worker, job, token, limit)
  local untl = tonumber(redis.call('HGET', key.subscriber(token), 'throttled_until'))
  if untl and untl > now then
    await_probe(job, token, untl)
    return false
  end
  local in_flight = tonumber(redis.call('HGET', key.lanes_in_flight(), token)) or 0
  if in_flight >= (untl and 1 or limit) then
    redis.call('RPUSH', key.jobs_waiting(token), job)
    return false
  end
  if untl then redis.call('HDEL', key.subscriber(token), 'probe') end
  redis.call('HINCRBY', key.lanes_in_flight(), token, 1)
  redis.call('HSET', key.lanes_held(), worker, token)
  return true
end
