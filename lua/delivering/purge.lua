#!lua flags=allow-oom
--[[
purge: delete dead letters of the client that asks, or any if root asks (no `client`). Returns how many were
deleted.

Entries of the client's index that name no letter of its own are removed.
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
