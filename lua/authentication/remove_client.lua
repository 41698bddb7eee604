#!lua flags=allow-oom
--[[
remove_client: delete a client with its secret and its triggers. Returns true if there was such a client.

Next, the caller removes the client's subscriber and joins. If this is interrupted, the removal can be repeated,
although the client no longer exists. The client still owns its topics until root deletes them or gives them to another
client.
]]
local triggers = include('flow/triggers/triggers')

return function(call, args)
  local keys, token = call.keys, args.token
  local removed = redis.call('HDEL', keys.api_tokens(), token) == 1
  redis.call('DEL', keys.api_token(token), keys.former_secret(token))
  triggers.remove_all(call, token)
  return removed
end
