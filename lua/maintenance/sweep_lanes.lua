#!lua flags=allow-oom
--[[
sweep_lanes: restart the deliveries to these subscribers if they are stuck, by making one waiting job instant. Returns
the findings.

The deliveries to a subscriber are stuck if all of its jobs wait, because a waiting job becomes instant only when
another job of the subscriber ends. (The jobs of a paused subscriber are meant to wait.) They are also restarted if the
subscriber's probe, the only job that may run next, is no longer in the queue.
]]
local findings = include('maintenance/findings')
local waiting = include('delivering/waiting')

local function all_wait(call, token)
  local waiting_count = redis.call('ZCARD', call.keys.jobs_waiting(token))
  return waiting_count > 0 and waiting_count == redis.call('ZCARD', call.keys.batches_queued(token))
end

return function(call, args)
  local found = {}
  for _, token in ipairs(args.tokens) do
    local subscriber = call.keys.subscriber(token)
    local probe, paused_at = unpack(redis.call('HMGET', subscriber, 'probe', 'paused_at'))
    local lost = probe and redis.call('SISMEMBER', call.keys.jobs_index('main'), probe) == 0
    local stuck = not paused_at and all_wait(call, token)
    if lost then findings.add(found, 'probe_lost', token) end
    if stuck then findings.add(found, 'lane_stuck', token) end
    if lost or stuck then
      redis.call('HDEL', subscriber, 'probe')
      waiting.make_instant(call, token, 1)
    end
  end
  return found
end
