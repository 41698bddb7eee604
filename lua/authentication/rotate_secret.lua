#!lua flags=allow-oom
--[[
rotate_secret: give a client another secret; the one that it had works for a while longer.

One that worked only for a while longer ends: a client has two secrets at most.

KEYS
  schema                     string  names the partition
TOUCHES
  api_tokens:by_token        hash
  api_token:{token}          hash    ha1_sha256, ha1_md5
  former_secret:{token}      hash
ARGV
  token                      the client
  ha1_sha256, ha1_md5        the digests of the new secret
  grace_ms                   how long the present one goes on working; 0: it ends now
RETURNS
  'ok', 'client_not_found', or 'no_secret': the client has none that could be changed
]]
local token, sha256, md5, grace_ms = unpack(ARGV)
if redis.call('HEXISTS', key.api_tokens(), token) == 0 then return 'client_not_found' end
local client, former = key.api_token(token), key.former_secret(token)
local before = redis.call('HMGET', client, 'ha1_sha256', 'ha1_md5')
if not before[1] and not before[2] then return 'no_secret' end
redis.call('HSET', former, 'ha1_sha256', before[1] or '', 'ha1_md5', before[2] or '')
redis.call('PEXPIRE', former, grace_ms)
redis.call('HSET', client, 'ha1_sha256', sha256, 'ha1_md5', md5)
return 'ok'
