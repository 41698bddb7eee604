#!lua flags=allow-oom
--[[
adopt: store the version of the data layout, and delete the aux jobs of the Ruby Routemaster.

Data without a version is the Ruby Routemaster's, which is noted in `taken_over`. But if there are leases, this
bus wrote it, and the version is missing because Redis lost its memory while processes of the bus ran.

If a version is stored already, the call changes nothing and returns false. So of several processes that boot
at the same time only one deletes aux jobs. Later aux jobs belong to this bus and must stay.
]]
local function is_of_ruby(keys)
  local found = redis.call('EXISTS', keys.topics(), keys.subscribers(), keys.api_tokens(), keys.batches_index())
  return found > 0 and redis.call('EXISTS', keys.leases_last()) == 0
end

return function(call, args)
  local keys, q = call.keys, 'aux'
  local of_ruby = is_of_ruby(keys)
  if not redis.call('SET', keys.schema(), args.layout, 'NX') then return false end
  if of_ruby then redis.call('SET', keys.taken_over(), call.now_ms, 'NX') end
  for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
    redis.call('DEL', keys.jobs_pending(q, worker))
  end
  redis.call('DEL', keys.jobs_index(q), keys.jobs_scheduled(q), keys.jobs_instant(q), keys.jobs_pending_index(q))
  return true
end
