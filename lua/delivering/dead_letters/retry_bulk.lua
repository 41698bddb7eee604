#!lua
--[[
retry_bulk: make a step of a running bulk retry: turn the next dead letters back into ready batches. If the subscriber
of a letter has left, or the letter cannot be read, the letter stays, and counts in `left`. Redis refuses this script
while memory is exhausted, for the reason that revive.lua gives.
]]
local bulks = include('delivering/dead_letters/bulks')
local reviving = include('delivering/dead_letters/reviving')

return function(call, args)
  local step, revived = bulks.begin_step(call, args, 'running'), {}
  if not step then return { state = 'lost', revived = revived } end
  for _, bid in ipairs(bulks.readable(call, step.bids, true)) do
    local letter = reviving.revive(call, bid, args.token)
    if letter.outcome == 'ok' then revived[#revived + 1] = letter end
  end
  bulks.note_handled(call, step, #revived)
  return { state = step.state, revived = revived }
end
