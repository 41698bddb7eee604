#!lua flags=allow-oom
--[[
drop_queue: delete the batches of a removed subscriber that were created up to `until_ms`, with their jobs.

A call deletes at most `max_batches`. It skips batches that workers are delivering now. Returns how many
batches were deleted, and how many events they held. If it deleted fewer than `max_batches`, nothing is left
to delete.
]]
local batches = include('delivering/batches')
local delivery_log = include('records/delivery_log')
local dropping = include('maintenance/dropping')
local jobs = include('delivering/jobs')

return function(call, args)
  local keys, token = call.keys, args.token
  local held, held_count = dropping.jobs_held(call)
  local records = delivery_log.drops('unsubscribed', args.delivery_log)
  local collection, dropped, events = dropping.begin(records), 0, 0
  for _, bid in ipairs(redis.call('ZRANGE', keys.batches_queued(token), 0, args.max_batches + held_count - 1)) do
    local job = jobs.delivery_of(bid)
    -- `until_ms` is compared with the creation time in the batch, not with the batch's score in `batches_queued`. The
    -- score can be later: a batch of an `ordered` subscriber always gets a higher score than the batch before it.
    local _, created_ms, attempts = unpack(redis.call('LRANGE', keys.batch(bid), 0, batches.HEADER - 1))
    if dropped < args.max_batches and not held[job] and (tonumber(created_ms) or 0) <= args.until_ms then
      if created_ms then
        local in_batch = redis.call('LLEN', keys.batch(bid)) - batches.HEADER
        local about = { token = token, created_ms = created_ms, attempts = attempts, events = in_batch }
        dropping.add(call, collection, bid, about)
        events = events + in_batch
      else
        redis.call('ZREM', keys.batches_queued(token), bid)
        dropping.add(call, collection, bid, {})
        dropping.update_lane(call, collection, token, { job })
      end
      dropped = dropped + 1
    end
  end
  dropping.delete_all(call, collection)
  return { batches = dropped, events = events }
end
