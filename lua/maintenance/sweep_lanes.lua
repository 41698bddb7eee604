#!lua flags=allow-oom
--[[
sweep_lanes: set going again the lanes that nothing would.

Where all jobs of a lane wait aside nothing brings them back, unless the subscriber is paused: then it is meant. A probe that
is no job any more would never try the subscriber again.

KEYS
  schema                     string  names the partition
TOUCHES
  batches:index:{token}      zset
  jobs:index:{q}             set
  jobs:instant:{q}           list
  jobs:waiting:{token}       zset
  subscriber:{token}         hash    probe; reads paused_at, ordered
ARGV
  token…                     subscribers
RETURNS
  a list of kind, subscriber: what was mended; again and again
]]
-- include: jobs
-- include: waiting

local findings = {}
local function found(kind, token)
  findings[#findings + 1] = kind
  findings[#findings + 1] = token
end

local function all_wait(token)
  local waiting = redis.call('ZCARD', key.jobs_waiting(token))
  return waiting > 0 and waiting == redis.call('ZCARD', key.batches_queued(token))
end

for _, token in ipairs(ARGV) do
  local subscriber = key.subscriber(token)
  local probe, paused_at = unpack(redis.call('HMGET', subscriber, 'probe', 'paused_at'))
  local lost = probe and redis.call('SISMEMBER', key.jobs_index('main'), probe) == 0
  local stuck = not paused_at and all_wait(token)
  if lost then found('probe_lost', token) end
  if stuck then found('lane_stuck', token) end
  if lost or stuck then
    redis.call('HDEL', subscriber, 'probe')
    bring_back(token, 1)
  end
end
announce()
return findings
