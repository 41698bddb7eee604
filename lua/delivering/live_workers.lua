--[[
Live workers: the workers that have given a sign of life. One that was killed stays among them until a scrub.
]]
local live_workers = {}

-- Returns the number of live workers that deliver.
function live_workers.count(call)
  call.live_workers = call.live_workers or redis.call('SCARD', call.keys.workers_main())
  return call.live_workers
end

-- Stores the present time as the last sign of life of these workers, which renews their leases.
function live_workers.note_alive(call, q, workers)
  if #workers == 0 then return end
  local heard, now = {}, string.format('%d', call.now_ms)
  for i, worker in ipairs(workers) do heard[2 * i - 1], heard[2 * i] = worker, now end
  local new = redis.call('HSET', call.keys.workers(), unpack(heard))
  if new == 0 then return end
  redis.call('SADD', q == 'main' and call.keys.workers_main() or call.keys.workers_aux(), unpack(workers))
  call.live_workers = nil
end

return live_workers
