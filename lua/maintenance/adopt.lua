#!lua flags=allow-oom
--[[
adopt: store the version of the data layout, and delete the aux jobs of the Ruby Routemaster.

If a version is stored already, the call changes nothing and returns false. So of several processes that boot
at the same time only one deletes aux jobs. Later aux jobs belong to this bus and must stay.
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
