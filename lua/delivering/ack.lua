#!lua flags=allow-oom
--[[
ack: delete a job that its worker has finished, and the batch that the job delivered. acquire does the
same for many jobs.

If the worker does not hold the job under that lease, nothing changes and `held` is false. An accepted batch adds health
points to its subscriber and ends the subscriber's trial. If the delivery took long, the subscriber becomes slow.
Waiting jobs of the subscriber become instant, as far as its lane has room.

`removed` is the number of events in the batch, or 0 if nothing changed. `is_gone` is true if nothing changed and the
batch no longer exists, as after an earlier call whose reply was lost. `left` is the number of jobs that are ready. Jobs
that become instant are not announced, because the worker asks for a job next.
]]
local finishing = include('delivering/finishing')
local lanes = include('delivering/lanes')

return function(call, args)
  local removed = finishing.finish_all(call, args, { args })[1]
  local is_gone = not removed and args.bid ~= nil and redis.call('EXISTS', call.keys.batch(args.bid)) == 0
  return { held = removed, removed = removed or 0, is_gone = is_gone, left = lanes.count_ready(call, args.q) }
end
