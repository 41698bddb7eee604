#!lua flags=allow-oom
--[[
keep_bulk: keep the record of a bulk operation for another day. The job of an operation calls this while it waits for
memory, because it makes no steps then. Returns false, and changes nothing, if the owner has begun another one since.
]]
local bulks = include('delivering/dead_letters/bulks')

return function(call, args)
  if redis.call('HGET', call.keys.bulk(args.owner), 'id') ~= args.id then return false end
  bulks.keep(call, args.owner)
  return true
end
