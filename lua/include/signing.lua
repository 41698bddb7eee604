-- The signing keys of a subscriber: the newest, then those that it replaces, each with the time (ms) until which it signs.

-- How many sign at most: each repeat of a call whose answer was lost makes one.
local MOST_AT_ONCE = 4

-- The keys when this one is the newest. Those before it have `overlap` ms left at most; it changes nothing if it is already.
local function replaced(signing, newest, overlap)
  local kept = { newest }
  for entry in signing:gmatch('%S+') do
    local signer, ends = entry:match('^([^@]+)@?(%d*)$')
    if signer == newest and ends == '' then return signing end
    local until_ms = math.min(ends == '' and math.huge or tonumber(ends or 0), now + overlap)
    if signer ~= newest and until_ms > now and #kept < MOST_AT_ONCE then
      kept[#kept + 1] = ('%s@%.0f'):format(signer, until_ms)
    end
  end
  return table.concat(kept, ' ')
end
