--[[
Join tokens: a join has the token `join:{name}:{client}`, as a subscriber. No client has a token with a colon, since
HTTP Basic could not carry it.
]]
local join_tokens = {}

-- The `callback` of a join. It is not a URL, because workers count the events of a join instead of sending them.
join_tokens.CALLBACK = 'join'

function join_tokens.is_join(token)
  return token:find('^join:') ~= nil
end

function join_tokens.make(name, client)
  return table.concat({ 'join', name, client }, ':')
end

-- Returns the name of a join and the token of its client. Returns nothing if the token does not belong to a join.
function join_tokens.read(token)
  return token:match('^join:([^:]*):(.*)$')
end

return join_tokens
