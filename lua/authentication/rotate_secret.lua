#!lua flags=allow-oom
--[[
rotate_secret: replace the secret of a client. The replaced secret remains valid for `grace_ms`.

A client has at most one replaced secret, so the secret that an earlier rotation replaced ends at once. Nothing changes
in these cases:

- `client_not_found`: there is no such client.
- `no_secret`: the client has no secret.
- `replaced_meanwhile`: `secret_at` is given, and the secret was not made at this time. So if two callers have seen the
  same secret, only one of them replaces it. A second replacement would end the secret that the client still uses.
]]
return function(call, args)
  local keys, token = call.keys, args.token
  if redis.call('HEXISTS', keys.api_tokens(), token) == 0 then return 'client_not_found' end
  local client, former = keys.api_token(token), keys.former_secret(token)
  local sha256, md5, secret_at, created_at =
    unpack(redis.call('HMGET', client, 'ha1_sha256', 'ha1_md5', 'secret_at', 'created_at'))
  if not sha256 and not md5 then return 'no_secret' end
  -- The field `secret_at` is missing if the secret was never replaced. The secret is then as old as the client.
  if args.secret_at and args.secret_at ~= (secret_at or created_at) then return 'replaced_meanwhile' end
  redis.call('HSET', former, 'ha1_sha256', sha256 or '', 'ha1_md5', md5 or '')
  redis.call('PEXPIRE', former, args.grace_ms)
  redis.call('HSET', client, 'ha1_sha256', args.ha1_sha256, 'ha1_md5', args.ha1_md5, 'secret_at', call.now_ms)
  return 'ok'
end
