#!lua flags=allow-oom
--[[
count_bulk: count the next dead letters that match the filter of a bulk operation. When all are counted, nothing is
retried or purged until the owner confirms the number.
]]
local bulks = include('delivering/dead_letters/bulks')

return function(call, args)
  local step = bulks.begin_step(call, args, 'counting')
  if not step then return 'lost' end
  local counts = { matched = step.record.matched + #step.bids }
  if step.state == 'over' then counts.state = 'counted' end
  bulks.end_step(call, step, counts)
  return step.state
end
