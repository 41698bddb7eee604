--[[
Copies: counts the copies that a script call makes. A copy is one event stored for one subscriber. `copies.MAX` has the
numbers of src/store/copies.ts.
]]
local copies = { MAX = include('store/copies') }

-- Returns how many copies (events for one subscriber) a script call makes when it stores `events` events for
-- `subscribers` subscribers. The events have `bytes` bytes together. A long event counts as several copies.
function copies.of(events, bytes, subscribers)
  return math.max(events, bytes / copies.MAX.bytes_per_copy) * subscribers
end

return copies
