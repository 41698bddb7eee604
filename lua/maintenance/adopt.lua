#!lua flags=allow-oom
--[[
adopt: store the version of the data layout, and forget the aux jobs of the Ruby Routemaster.

Only the first call does so and returns true. From then on aux jobs are those of this bus, and another process
that boots at the same time must not forget them.
]]
return function(call, args)
  local keys, q = call.keys, 'aux'
  if not redis.call('SET', keys.schema(), args.layout, 'NX') then return false end
  for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
    redis.call('DEL', keys.jobs_pending(q, worker))
  end
  redis.call('DEL', keys.jobs_index(q), keys.jobs_scheduled(q), keys.jobs_instant(q), keys.jobs_pending_index(q))
  return true
end
