#!lua flags=allow-oom
--[[
continue_outbox: make the numbers of new outbox entries higher than `applied`, the highest number of this partition that
another partition has applied.

Usually they are higher already. But if this Redis was emptied, or an old backup was restored, it may have lost its last
number, and `ahead`, which says how far numbers are ahead of its clock. Then new entries could get lower numbers than
`applied`, and the other partition would ignore these entries.
]]
local outbox_numbers = include('publishing/outbox_numbers')

return function(call, args)
  return outbox_numbers.continue_above(call, args.applied)
end
