#!lua flags=allow-oom
--[[
condemn: make a dead letter of the batch that killed a quarantine process, and forget the worker of that process.

A quarantine is a process with a single worker, which delivers batches that may have killed workers, one at a time. The
process that had started the quarantine calls this script when the quarantine has died. If `worker` was delivering a
batch, the quarantine did nothing else, so this batch becomes a dead letter. If the worker had no job, or a scrub has
taken the job from it, only the worker is forgotten. Returns the batch, its subscriber, and the numbers of `buried` and
`dropped` events (bury.lua). The subscriber is not to blame, so its health does not change.

`held_bid` is the batch that the worker was delivering, as the caller has read it before. If an earlier call whose reply
was lost has made this batch a dead letter, the reply is the same again.
]]
local attempts = include('delivering/attempts')
local batches = include('delivering/batches')
local burying = include('delivering/dead_letters/burying')
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')

-- Returns the reply of the earlier call that made the batch `bid` a dead letter, or nothing if there was no such call.
local function buried_before(call, bid)
  local letter = call.keys.dead_letter(bid)
  local token = redis.call('LINDEX', letter, 0)
  if token then
    return { bid = bid, token = token, buried = redis.call('LLEN', letter) - batches.HEADER, dropped = 0 }
  end
end

return function(call, args)
  local worker = args.worker
  local job = redis.call('RPOP', call.keys.jobs_pending('main', worker))
  local bid, buried, dropped, token = job and jobs.batch_of(job) or nil, 0, 0, nil
  if bid then
    if redis.call('EXISTS', call.keys.batch(bid)) == 1 then attempts.note_death(call, bid, worker) end
    buried, dropped, token = burying.end_delivery(call, {
      q = 'main', worker = worker, job = job, bid = bid, reason = 'killed_worker', damage = 0, throttle_ms = 0,
    })
  end
  redis.call('SREM', call.keys.jobs_pending_index('main'), worker)
  redis.call('HDEL', call.keys.leases(), worker)
  leases.forget_worker(call, worker)
  local before = not job and args.held_bid and buried_before(call, args.held_bid)
  return before or { bid = bid, token = token, buried = buried, dropped = dropped }
end
