#!lua
--[[
limit_client: replace the scopes of a client, whether it has a secret or not. Scopes limit a client to certain topics
(limits.lua).

`ended` has the tokens of the joins that ended, because the scopes do not permit them; the caller deletes their batches
and dead letters next. `name` is the name of the client. If there is no such client, nothing changes and the outcome is
`client_not_found`.
]]
local limits = include('authentication/limits')

return function(call, args)
  local name = redis.call('HGET', call.keys.api_tokens(), args.token)
  if not name then return { outcome = 'client_not_found', ended = {} } end
  return { outcome = 'ok', name = name, ended = limits.set(call, args.token, args.scopes) }
end
