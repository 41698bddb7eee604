#!lua flags=allow-oom
--[[
purge: delete dead letters that belong to `client`. Without `client` (root asks), delete dead letters of any subscriber.
Returns the number of dead letters deleted.

The script also removes entries of the client's index that do not name a dead letter of this client. The API takes
letters from the index 100 at a time, and would otherwise meet these entries again each time.
]]
local purging = include('delivering/dead_letters/purging')

return function(call, args)
  return purging.purge(call, args.bids, args.client, args.delivery_log)
end
