--[[
Purging: deletes dead letters for good, with a record of each in the delivery log.
]]
local batches = include('delivering/batches')
local dead_letters = include('delivering/dead_letters/dead_letters')
local delivery_log = include('records/delivery_log')
local purging = {}

local function add_record(call, records, bid)
  local letter = call.keys.dead_letter(bid)
  local token, created_ms, attempts = batches.read_header(letter)
  if not token then return end
  local events = redis.call('LLEN', letter) - batches.HEADER
  local about = { token = token, created_ms = created_ms, attempts = attempts, events = events }
  delivery_log.add_drop(call, records, bid, about)
end

-- Deletes the dead letters `bids`. If `wanted` is given, letters of other subscribers stay. Returns how many were
-- deleted.
function purging.purge(call, bids, wanted, max_records)
  local purged = 0
  local records = delivery_log.drops('purged', max_records)
  for _, bid in ipairs(bids) do
    local token = redis.call('LINDEX', call.keys.dead_letter(bid), 0)
    if token ~= wanted then dead_letters.forget_entry(call, bid, wanted) end
    if not wanted or not token or token == wanted then
      add_record(call, records, bid)
      if dead_letters.delete(call, bid) then purged = purged + 1 end
    end
  end
  delivery_log.write_drops(call, records)
  return purged
end

return purging
