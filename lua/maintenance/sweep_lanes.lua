#!lua flags=allow-oom
--[[
sweep_lanes: set going again the lanes that nothing else would.

If all jobs of a lane wait, nothing brings them back. (If the subscriber is paused that is intended.) A
trial job that is no longer in the queue would never try the subscriber again.
]]
local findings = include('findings')
local waiting = include('waiting')

local function all_wait(call, token)
  local waiting_count = redis.call('ZCARD', call.keys.jobs_waiting(token))
  return waiting_count > 0 and waiting_count == redis.call('ZCARD', call.keys.batches_queued(token))
end

return function(call, args)
  local found = {}
  for _, token in ipairs(args.tokens) do
    local subscriber = call.keys.subscriber(token)
    local trial_job, paused_at = unpack(redis.call('HMGET', subscriber, 'probe', 'paused_at'))
    local lost = trial_job and redis.call('SISMEMBER', call.keys.jobs_index('main'), trial_job) == 0
    local stuck = not paused_at and all_wait(call, token)
    if lost then findings.add(found, 'probe_lost', token) end
    if stuck then findings.add(found, 'lane_stuck', token) end
    if lost or stuck then
      redis.call('HDEL', subscriber, 'probe')
      waiting.bring_back(call, token, 1)
    end
  end
  return found
end
