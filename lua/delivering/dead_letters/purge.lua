#!lua flags=allow-oom
--[[
purge: delete dead letters of the subscriber `token`. Without `token` (root asks), delete those of any subscriber.
Returns the number of dead letters deleted.

The script also removes entries of the subscriber's index that do not name a dead letter of it. If they stayed, the
API, which takes 100 entries of the index at a time, would meet them each time.
]]
local purging = include('delivering/dead_letters/purging')

return function(call, args)
  return purging.purge(call, args.bids, args.token, args.delivery_log)
end
