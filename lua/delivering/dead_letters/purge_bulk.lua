#!lua flags=allow-oom
--[[
purge_bulk: make a step of a running bulk purge: delete the next dead letters, with a record of each in the delivery
log. A letter that cannot be read stays, and counts in `left`.
]]
local bulks = include('delivering/dead_letters/bulks')
local purging = include('delivering/dead_letters/purging')

return function(call, args)
  local step = bulks.begin_step(call, args, 'running')
  if not step then return 'lost' end
  local purged = purging.purge(call, bulks.readable(call, step.bids), args.token, args.delivery_log)
  bulks.note_handled(call, step, purged)
  return step.state
end
