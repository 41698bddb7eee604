#!lua flags=allow-oom
--[[
purge: delete dead letters that belong to `client`; without `client` (root asks) any dead letters. Returns
the number of dead letters deleted.

The script also removes entries of the client's index that do not name a dead letter of this client.
Otherwise every slice of the index that the API reads would contain these entries again.
]]
local dead_letters = include('dead_letters')

return function(call, args)
  local client, purged = args.client, 0
  for _, bid in ipairs(args.bids) do
    local token = redis.call('LINDEX', call.keys.dead_letter(bid), 0)
    if token ~= client then dead_letters.forget_entry(call, bid, client) end
    local may_delete = not client or not token or token == client
    if may_delete and dead_letters.delete(call, bid) then purged = purged + 1 end
  end
  return purged
end
