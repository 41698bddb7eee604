#!lua flags=allow-oom
--[[
purge: delete dead letters that belong to `client`; without `client` (root asks) any dead letters. Returns
the number of dead letters deleted.

The script also removes entries of the client's index that do not name a dead letter of this client.
Otherwise the API, which takes letters from the index 100 at a time, would meet these entries again each time.
]]
local batches = include('batches')
local dead_letters = include('dead_letters')
local delivery_log = include('delivery_log')

local function add_record(call, records, bid)
  local letter = call.keys.dead_letter(bid)
  local token, created_ms, attempts = batches.read_header(letter)
  if not token then return end
  local events = redis.call('LLEN', letter) - batches.HEADER
  local about = { created_ms = created_ms, attempts = attempts, events = events }
  delivery_log.add_drop(call, records, bid, token, about)
end

return function(call, args)
  local client, purged = args.client, 0
  local records = delivery_log.drops('purged', args.delivery_log)
  for _, bid in ipairs(args.bids) do
    local token = redis.call('LINDEX', call.keys.dead_letter(bid), 0)
    if token ~= client then dead_letters.forget_entry(call, bid, client) end
    local may_delete = not client or not token or token == client
    if may_delete then
      add_record(call, records, bid)
      if dead_letters.delete(call, bid) then purged = purged + 1 end
    end
  end
  delivery_log.write_drops(call, records)
  return purged
end
