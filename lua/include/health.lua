-- Health points: a subscriber has a hundred at first, and at most.
local PERFECT_HEALTH = 100

local function health_after(points, change)
  return math.max(0, math.min(PERFECT_HEALTH, (tonumber(points) or PERFECT_HEALTH) + change))
end
