#!lua flags=allow-oom
--[[
remove_client: delete a client with its secret and its triggers. Returns true if there was such a client.

What else belongs to it is removed next by the caller, or in vain if that is cut off: topics stay its own.
]]
local triggers = include('triggers')

return function(call, args)
  local keys, token = call.keys, args.token
  local removed = redis.call('HDEL', keys.api_tokens(), token) == 1
  redis.call('DEL', keys.api_token(token), keys.former_secret(token))
  triggers.remove_all(call, token)
  return removed
end
