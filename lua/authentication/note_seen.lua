#!lua
--[[
note_seen: store that these clients have called now. Clients that do not exist are left out.
]]
return function(call, args)
  for _, token in ipairs(args.tokens) do
    if redis.call('HEXISTS', call.keys.api_tokens(), token) == 1 then
      redis.call('HSET', call.keys.api_token(token), 'seen_at', call.now_ms)
    end
  end
  return true
end
