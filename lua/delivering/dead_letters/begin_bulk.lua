#!lua flags=allow-oom
--[[
begin_bulk: begin a bulk operation, which counts all dead letters that match a filter, and then retries or purges them.
While another bulk operation of this owner runs, returns false and changes nothing. If the owner's last operation is in
any other state than `running`, the new one replaces it.

Only letters that died before this call match. So if a letter is retried and dies again, it is not retried again.
`queues` is JSON that only the caller reads: a list of the tokens of the subscribers whose letters are counted, or a
list of one null for all subscribers. `list_length` is the length of this list.
]]
local bulks = include('delivering/dead_letters/bulks')
local jobs = include('delivering/jobs')

return function(call, args)
  local key = call.keys.bulk(args.owner)
  if redis.call('HGET', key, 'state') == 'running' then return false end
  redis.call('DEL', key)
  redis.call('HSET', key, 'id', args.id, 'act', args.act, 'state', 'counting')
  redis.call('HSET', key, 'queues', args.queues, 'queue', 0, 'queue_count', args.list_length)
  redis.call('HSET', key, 'until_ms', math.min(args.until_ms or call.now_ms, call.now_ms))
  if args.from_ms then redis.call('HSET', key, 'from_ms', args.from_ms) end
  if args.reason then redis.call('HSET', key, 'reason', args.reason) end
  redis.call('HSET', key, 'matched', 0, 'done', 0, 'left', 0, 'began_ms', call.now_ms)
  bulks.keep(call, args.owner)
  jobs.put(call, 'aux', args.job)
  return true
end
