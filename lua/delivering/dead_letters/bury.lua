#!lua flags=allow-oom
--[[
bury: make a batch that must not be tried again a dead letter, and delete its job.

If the worker does not hold the job under that lease, nothing changes and `held` is false. If the subscriber has left,
the batch is deleted. A waiting job of the subscriber becomes instant. `buried` is the number of events in the dead
letter. If an earlier call whose reply was lost made the dead letter, `buried` has the same number again: the script
knows such a letter by its last attempt, which equals the `attempt` of this call. `dropped` is the number of events in
the deleted batch. Either number is 0 if there is no such dead letter or batch. `is_gone` is true if the worker does not
hold the job, and there is neither the batch nor a dead letter: perhaps such an earlier call has deleted the batch.
]]
local batches = include('delivering/batches')
local burying = include('delivering/dead_letters/burying')
local leases = include('delivering/leases')

return function(call, args)
  if not leases.take_job_and_lease(call, args) then
    local length = redis.call('LLEN', call.keys.dead_letter(args.bid))
    local is_gone = length == 0 and redis.call('EXISTS', call.keys.batch(args.bid)) == 0
    local is_own = redis.call('LINDEX', call.keys.attempts(args.bid), -1) == args.attempt
    local buried = is_own and math.max(0, length - batches.HEADER) or 0
    return { held = false, buried = buried, dropped = 0, is_gone = is_gone }
  end
  local buried, dropped = burying.end_delivery(call, args)
  return { held = true, buried = buried, dropped = dropped, is_gone = false }
end
