--[[
Copies: count the copies that a script call makes. `copies.MAX` has the maximums of the calls that can stop early, as
src/store/copies.ts has them.
]]
local copies = { MAX = include('store/copies') }

-- Returns the number of copies of short events that take as long as these events with `bytes` for each of `subscribers`.
function copies.of(events, bytes, subscribers)
  return math.max(events, bytes / copies.MAX.bytes_per_copy) * subscribers
end

return copies
