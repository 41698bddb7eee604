#!lua flags=allow-oom
--[[
begin_session: store a session of the console for `lifetime_ms`. An owner who has begun `max` sessions within that time
loses the oldest one. The script runs even when memory is exhausted (`allow-oom`), so that operators can log in then.
]]
return function(call, args)
  local keys = call.keys
  local all = keys.sessions(args.owner)
  redis.call('ZADD', all, call.now_ms, args.digest)
  redis.call('ZREMRANGEBYSCORE', all, '-inf', call.now_ms - args.lifetime_ms)
  redis.call('PEXPIRE', all, args.lifetime_ms)
  for _ = args.max + 1, redis.call('ZCARD', all) do
    redis.call('UNLINK', keys.session(redis.call('ZPOPMIN', all)[1]))
  end
  redis.call('SET', keys.session(args.digest), args.session, 'PX', args.lifetime_ms)
  return true
end
