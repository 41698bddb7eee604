#!lua flags=allow-oom
--[[
ack: forget a job that its worker has finished, and delete the batch that it delivered. acquire does the same
for many jobs.

Nothing happens if the worker does not hold the job under that lease (`held` is false). A batch that was taken
heals its subscriber and ends its trial; one that took long makes the subscriber slow. The lane
continues with its waiting jobs.

Returns how many events the batch held (`removed`), and how many jobs are ready (`left`): the worker asks for
one next, so jobs that come back are not announced.
]]
local finishing = include('finishing')
local lanes = include('lanes')

return function(call, args)
  local removed = finishing.finish_all(call, args, { args })[1]
  return { held = removed, removed = removed or 0, left = lanes.count_ready(call, args.q) }
end
