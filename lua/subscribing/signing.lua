--[[
Signing keys of a subscriber: the newest key first, then the keys that it replaced. Each replaced key is
followed by `@` and the time (ms) until which it signs deliveries.
]]
local signing = {}

-- Maximum signing keys of a subscriber. Without a maximum, a client that gets no answer and repeats its request for a
-- new key again and again would add a key each time.
local MAX_KEYS = 4

-- Returns the signing keys of a subscriber after the key `newest` has replaced the newest key in `before`. Each older
-- key still signs for `overlap_ms` at most. If `newest` is the newest key in `before` already, returns `before`.
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
