#!lua flags=allow-oom
--[[
takeover: convert batches of the Ruby Routemaster to this layout. Returns how many lists were renamed.

A batch without a job gets a scheduled job that is due now. A batch that was converted already, or that no
longer exists, is not an error.
]]
local jobs = include('jobs')
local open_batches = include('open_batches')

-- Makes a current batch the open one, if it was never attempted and no other is open. Otherwise closes it.
local function take_over_current(call, token, bid, attempts)
  local keys = call.keys
  if redis.call('SISMEMBER', keys.batches_current(token), bid) == 0 then return end
  local max = open_batches.max_events(redis.call('HGET', keys.subscriber(token), 'max_events'))
  if attempts == '0' then redis.call('HSETNX', keys.batches_open(), token, open_batches.entry(bid, max)) end
  local entry = redis.call('HGET', keys.batches_open(), token)
  if not entry or open_batches.read_entry(entry) ~= bid then redis.call('SREM', keys.batches_current(token), bid) end
end

return function(call, args)
  local keys, renamed = call.keys, 0
  for _, bid in ipairs(args.bids) do
    local old, batch = keys.ruby_batch(bid), keys.batch(bid)
    if redis.call('EXISTS', old) == 1 then renamed = renamed + redis.call('RENAMENX', old, batch) end
    local token, created_ms, attempts = unpack(redis.call('LRANGE', batch, 0, 2))
    if token then
      redis.call('ZADD', keys.batches_queued(token), created_ms * 1000, bid)
      take_over_current(call, token, bid, attempts)
      local job = jobs.delivery_of(bid)
      local is_new = redis.call('SADD', keys.jobs_index('main'), job) == 1
      if is_new then jobs.make_scheduled(call, 'main', job, call.now_ms) end
    else
      redis.call('ZREM', keys.batches_index(), bid)
    end
  end
  return renamed
end
