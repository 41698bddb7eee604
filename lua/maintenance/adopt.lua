#!lua flags=allow-oom
--[[
adopt: store the version of the data layout and the time at which this bus begins, and delete those jobs of the Ruby
Routemaster that deliver no batch (its queue `aux`).

If the Redis has a client or a subscriber that the Ruby Routemaster made, this is a takeover of a Ruby Routemaster's
Redis, and the key `taken_over` gets the time. If there is no such client or subscriber, this is no takeover: any data
in the Redis comes from processes of this bus that still ran when Redis had lost its data.

If a version is stored already, the call changes nothing and returns false. So if several processes boot at the same
time, only one of them deletes jobs. Later jobs in the queue `aux` belong to this bus and must stay.
]]
-- Returns true if the Ruby Routemaster made one of the clients or subscribers. This bus stores `created_at` for each
-- client and `subscribed_at` for each subscriber, and the Ruby Routemaster stores neither.
local function is_of_ruby(keys)
  local names = redis.call('HGETALL', keys.api_tokens())
  for i = 1, #names, 2 do
    if redis.call('HEXISTS', keys.api_token(names[i]), 'created_at') == 0 then return true end
  end
  for _, token in ipairs(redis.call('SMEMBERS', keys.subscribers())) do
    if redis.call('HEXISTS', keys.subscriber(token), 'subscribed_at') == 0 then return true end
  end
  return false
end

return function(call, args)
  local keys, q = call.keys, 'aux'
  if redis.call('EXISTS', keys.schema()) == 1 then return false end
  redis.call('SET', keys.begun_at(), call.now_ms, 'NX')
  if is_of_ruby(keys) then redis.call('SET', keys.taken_over(), call.now_ms, 'NX') end
  for _, worker in ipairs(redis.call('SMEMBERS', keys.jobs_pending_index(q))) do
    redis.call('DEL', keys.jobs_pending(q, worker))
  end
  redis.call('DEL', keys.jobs_index(q), keys.jobs_scheduled(q), keys.jobs_instant(q), keys.jobs_pending_index(q))
  -- This must be the last write. If Redis is killed and loses its last writes, the next start must repeat the others.
  redis.call('SET', keys.schema(), args.layout)
  return true
end
