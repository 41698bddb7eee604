#!lua flags=allow-oom
--[[
count_bulk: make a step of a bulk (the retry or purge of many dead letters) that counts: count the next dead letters
that match. When all are counted, the bulk waits until its owner confirms it.
]]
local bulks = include('delivering/bulks')

return function(call, args)
  local record = bulks.open(call, args, 'counting')
  if not record then return 'lost' end
  local key = call.keys.bulk(args.owner)
  local bids, state, last = bulks.walk(call, args, record)
  redis.call('HINCRBY', key, 'matched', #bids)
  bulks.proceed(call, args, state, last)
  if state == 'over' then redis.call('HSET', key, 'state', 'counted') end
  return state
end
