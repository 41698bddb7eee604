#!lua
--[[
revive: turn dead letters back into ready batches. Their attempts and their age begin again at 0.

If `token` is given, only dead letters of this subscriber are revived. Without `token` (root asks), any are. A dead
letter stays if its subscriber has left. Each batch goes to the end of its subscriber's queue, in the order given. Its
job is instant. But if the batch may have killed workers, its job waits for a quarantine (jobs.lua). The history of a
batch's attempts is kept.

Returns an outcome for each UID. The outcome is `dead_letter_not_found` also for the dead letter of another
subscriber. If the subscriber's index has a UID with this outcome, the UID is removed from the index.

Redis refuses this script while memory is exhausted (no `allow-oom`), although the script needs almost no memory. When
memory is short, autodrop deletes dead letters first. If they were revived, it would delete other batches instead.
]]
local reviving = include('delivering/dead_letters/reviving')

return function(call, args)
  local outcomes = {}
  for i, bid in ipairs(args.bids) do outcomes[i] = reviving.revive(call, bid, args.token) end
  return outcomes
end
