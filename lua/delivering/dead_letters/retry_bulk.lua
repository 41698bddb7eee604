#!lua
--[[
retry_bulk: make a step of a running bulk retry: retry the next dead letters, as `revive` does. If the subscriber of a
letter has left, or the letter cannot be read, the letter stays, and counts in `left`. Redis refuses this script while
memory is exhausted, as it refuses `revive`.
]]
local bulks = include('delivering/dead_letters/bulks')
local reviving = include('delivering/dead_letters/reviving')

return function(call, args)
  local record = bulks.open(call, args, 'running')
  if not record then return { state = 'lost', revived = {} } end
  local revived = {}
  local bids, state, last = bulks.walk(call, args, record)
  for _, bid in ipairs(bulks.readable(call, bids, true)) do
    local letter = reviving.revive(call, bid, args.token)
    if letter.outcome == 'ok' then revived[#revived + 1] = letter end
  end
  bulks.note_handled(call, args, record, state, last, #bids, #revived)
  return { state = state, revived = revived }
end
