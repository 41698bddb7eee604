#!lua
--[[
register_client: register a client without a secret. If the client exists already, it gets this name and these scopes.
With `keeps_name`, an existing client keeps its name and its secret, and gets only these scopes.

`scopes` limits the client to certain topics in the same step (limits.lua).

`ended` has the tokens of the joins that ended because the scopes do not permit them; the caller deletes their batches
and dead letters next. `name` is the name of the client.

Nothing changes if there is no client that could keep its name (`client_not_found`), or if a client that has a secret
would be registered without one (`has_secret`): its public token would be its credential.
]]
local limits = include('authentication/limits')

return function(call, args)
  local keys, token = call.keys, args.token
  local client = keys.api_token(token)
  local known = redis.call('HGET', keys.api_tokens(), token)
  local name = args.name
  if args.keeps_name then
    if not known then return { outcome = 'client_not_found', ended = {} } end
    name = known
  else
    local sha256, md5 = unpack(redis.call('HMGET', client, 'ha1_sha256', 'ha1_md5'))
    if known and (sha256 or md5) then return { outcome = 'has_secret', ended = {} } end
    redis.call('HSET', keys.api_tokens(), token, name)
    -- An earlier client with this token may have left its secret, if its removal stopped half-way. The secret must not
    -- be valid for the new client.
    redis.call('HDEL', client, 'ha1_sha256', 'ha1_md5', 'secret_at')
    redis.call('DEL', keys.former_secret(token))
    redis.call('HSETNX', client, 'created_at', call.now_ms)
  end
  return { outcome = 'ok', name = name, ended = limits.set(call, token, args.scopes) }
end
