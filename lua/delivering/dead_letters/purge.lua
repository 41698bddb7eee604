#!lua flags=allow-oom
--[[
purge: delete dead letters that belong to `client`. Without `client` (root asks), delete dead letters of any subscriber.
Returns the number of dead letters deleted.

The script also removes entries of the client's index that do not name a dead letter of this client. If they stayed, the
API, which takes 100 entries of the index at a time, would meet them each time.
]]
local purging = include('delivering/dead_letters/purging')

return function(call, args)
  return purging.purge(call, args.bids, args.client, args.delivery_log)
end
