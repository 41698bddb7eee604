#!lua flags=allow-oom
--[[
continue_outbox: make the numbers of new outbox entries higher than `applied`, the highest number of this partition that
another partition has applied.

Usually they are higher already. But if this Redis was emptied, or an old backup was restored, it may have lost its last
number, and `ahead`, by which numbers are later than its clock. The other partition would ignore entries with lower
numbers.
]]
local outboxes = include('publishing/outboxes')

return function(call, args)
  return outboxes.continue_above(call, args.applied)
end
