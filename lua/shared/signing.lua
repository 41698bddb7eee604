--[[
The signing keys of a subscriber: the newest, then those that it replaces, each with the time (ms) until which
it signs.
]]
local signing = {}

-- How many keys sign at most: each repeat of a call whose answer was lost makes one.
local MAX_KEYS = 4

-- The keys once `newest` is the newest. Those before it have `overlap_ms` left at most. Nothing changes if it
-- is already.
function signing.replaced(call, before, newest, overlap_ms)
  local kept = { newest }
  for entry in before:gmatch('%S+') do
    local signer, ends = entry:match('^([^@]+)@?(%d*)$')
    if signer == newest and ends == '' then return before end
    local until_ms = math.min(ends == '' and math.huge or tonumber(ends or 0), call.now_ms + overlap_ms)
    if signer ~= newest and until_ms > call.now_ms and #kept < MAX_KEYS then
      kept[#kept + 1] = ('%s@%.0f'):format(signer, until_ms)
    end
  end
  return table.concat(kept, ' ')
end

return signing
