--[[
Scopes: the topics that a client is limited to, as patterns separated by spaces.
]]
local scopes = {}

function scopes.permit(patterns, topic)
  for pattern in patterns:gmatch('%S+') do
    local beginning = pattern:match('^(.*)%*$')
    if pattern == topic or beginning and topic:sub(1, #beginning) == beginning then return true end
  end
  return false
end

return scopes
