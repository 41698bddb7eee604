--[[
UIDs: the names of the batches that one script call makes. Each is a seed of 16 random characters, which the caller
passes, followed by a counter of four digits.
]]
local uids = {}

-- The 64 digits of UIDs, in the order of their bytes. So the UIDs of one script call sort in the order in which they
-- were made.
local DIGITS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

local function digit(number)
  return DIGITS:sub(number % 64 + 1, number % 64 + 1)
end

-- Creates the state for the UIDs of one script call, all of which begin with `seed`.
function uids.begin(seed)
  return { seed = seed, count = 0 }
end

function uids.next(state)
  local number = state.count
  state.count = number + 1
  local high, middle, low = math.floor(number / 262144), math.floor(number / 4096), math.floor(number / 64)
  return state.seed .. digit(high) .. digit(middle) .. digit(low) .. digit(number)
end

return uids
