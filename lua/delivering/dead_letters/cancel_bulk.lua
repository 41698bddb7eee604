#!lua flags=allow-oom
--[[
cancel_bulk: stop a bulk operation (a retry or purge of many dead letters) that has not ended. What it has done is not
undone. Returns false, and changes nothing, if it has ended or is cancelled, or its owner has begun another one since.
]]

return function(call, args)
  local key = call.keys.bulk(args.owner)
  local id, state = unpack(redis.call('HMGET', key, 'id', 'state'))
  if id ~= args.id or state == 'ended' or state == 'cancelled' then return false end
  redis.call('HSET', key, 'state', 'cancelled', 'ended_ms', call.now_ms)
  return true
end
