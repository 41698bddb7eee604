#!lua flags=allow-oom
--[[
purge_bulk: make a step of a running bulk purge: delete the next dead letters, as `purge` does. A letter that cannot be
read stays, and counts in `left`.
]]
local bulks = include('delivering/dead_letters/bulks')
local purging = include('delivering/dead_letters/purging')

return function(call, args)
  local record = bulks.open(call, args, 'running')
  if not record then return 'lost' end
  local bids, state, last = bulks.walk(call, args, record)
  local purged = purging.purge(call, bulks.readable(call, bids), args.token, args.delivery_log)
  bulks.note_handled(call, args, record, state, last, #bids, purged)
  return state
end
