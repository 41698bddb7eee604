#!lua flags=no-writes,allow-oom
--[[
known_clients: read the names and scopes of these clients, in their order. Changes nothing.

A client that this partition does not know has no `name`. A missing `publish` or `subscribe` means no limit.
]]
return function(call, args)
  local keys, known = call.keys, {}
  for i, token in ipairs(args.tokens) do
    local publish, subscribe = unpack(redis.call('HMGET', keys.api_token(token), 'publish', 'subscribe'))
    known[i] = {
      name = redis.call('HGET', keys.api_tokens(), token) or nil,
      publish = publish or nil,
      subscribe = subscribe or nil,
    }
  end
  return known
end
