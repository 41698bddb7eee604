#!lua flags=allow-oom
--[[
confirm_bulk: begin to retry or purge the dead letters that match the filter of a bulk operation, after they were
counted. Returns false, and changes nothing, if the operation is not in the state `counted`, or its owner has begun
another one since.
]]
local bulks = include('delivering/dead_letters/bulks')
local jobs = include('delivering/jobs')

return function(call, args)
  local key = call.keys.bulk(args.owner)
  local id, state = unpack(redis.call('HMGET', key, 'id', 'state'))
  if id ~= args.id or state ~= 'counted' then return false end
  redis.call('HSET', key, 'state', 'running', 'began_ms', call.now_ms)
  bulks.keep(call, args.owner)
  jobs.put(call, 'aux', args.job)
  return true
end
