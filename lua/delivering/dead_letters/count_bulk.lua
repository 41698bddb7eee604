#!lua flags=allow-oom
--[[
count_bulk: count the next dead letters that match the filter of a bulk operation. When all are counted, nothing is
retried or purged until the owner confirms the number.
]]
local bulks = include('delivering/dead_letters/bulks')

return function(call, args)
  local record = bulks.open(call, args, 'counting')
  if not record then return 'lost' end
  local bids, state, last = bulks.walk(call, args, record)
  local counts = { matched = record.matched + #bids }
  if state == 'over' then counts.state = 'counted' end
  bulks.proceed(call, args, record, state, last, counts)
  return state
end
