#!lua flags=allow-oom
--[[
purge: delete dead letters that belong to `client`; without `client` (root asks) any dead letters. Returns
the number of dead letters deleted.

The script also removes entries of the client's index that do not name a dead letter of this client.
Otherwise the API, which takes letters from the index 100 at a time, would meet these entries again each time.
]]
local purging = include('delivering/purging')

return function(call, args)
  return purging.purge(call, args.bids, args.client, args.delivery_log)
end
