#!lua flags=allow-oom
--[[
continue_outbox: make the numbers of new outbox entries higher than `applied`, the highest number of this partition that
another partition has applied.

Usually they are higher already. But if this Redis was emptied, or an old backup was restored, it may have lost its last
number, and `ahead`, by which numbers are later than its clock. The other partition would ignore entries with lower
numbers.
]]
local outbox_numbers = include('publishing/outbox_numbers')

return function(call, args)
  return outbox_numbers.continue_above(call, args.applied)
end
