#!lua flags=allow-oom
--[[
rotate_secret: replace the secret of a client. The replaced secret remains valid for `grace_ms`.

A client has at most one replaced secret, so the secret that an earlier rotation replaced ends at once. Returns
`client_not_found` if there is no such client, and `no_secret` if the client has no secret; nothing changes in both
cases.
]]
return function(call, args)
  local keys, token = call.keys, args.token
  if redis.call('HEXISTS', keys.api_tokens(), token) == 0 then return 'client_not_found' end
  local client, former = keys.api_token(token), keys.former_secret(token)
  local sha256, md5 = unpack(redis.call('HMGET', client, 'ha1_sha256', 'ha1_md5'))
  if not sha256 and not md5 then return 'no_secret' end
  redis.call('HSET', former, 'ha1_sha256', sha256 or '', 'ha1_md5', md5 or '')
  redis.call('PEXPIRE', former, args.grace_ms)
  redis.call('HSET', client, 'ha1_sha256', args.ha1_sha256, 'ha1_md5', args.ha1_md5, 'secret_at', call.now_ms)
  return 'ok'
end
