#!lua flags=allow-oom
--[[
continue_outbox: make the numbers of new outbox entries higher than `applied`, the highest number of this partition that
another partition has applied.

Usually they are. But if this Redis was emptied, or an old backup was restored, the last number may be lost, and with it
by how much the numbers were ahead of the clock. The other partition would ignore entries with lower numbers.
]]
local outboxes = include('publishing/outboxes')

return function(call, args)
  return outboxes.continue_above(call, args.applied)
end
