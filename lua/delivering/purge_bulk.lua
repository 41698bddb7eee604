#!lua flags=allow-oom
--[[
purge_bulk: make a step of a running bulk that purges dead letters: delete the next dead letters, as `purge` does. A
letter that cannot be read stays, and counts in `left`.
]]
local bulks = include('delivering/bulks')
local purging = include('delivering/purging')

return function(call, args)
  local record = bulks.open(call, args, 'running')
  if not record then return 'lost' end
  local key = call.keys.bulk(args.owner)
  local bids, state, last = bulks.walk(call, args, record)
  local purged = purging.purge(call, bulks.readable(call, bids), args.token, args.delivery_log)
  bulks.proceed(call, args, state, last)
  redis.call('HINCRBY', key, 'done', purged)
  redis.call('HINCRBY', key, 'left', #bids - purged)
  if state == 'over' then redis.call('HSET', key, 'state', 'ended', 'ended_ms', call.now_ms) end
  return state
end
