#!lua flags=allow-oom
--[[
drop_queue: delete the batches of a removed subscriber that were created up to `until_ms`, with their jobs.

If the subscriber has subscribed again meanwhile, batches that got events after `until_ms` stay. The creation time of
such a batch can be before `until_ms`: with several partitions, it is the time at which another partition accepted the
first event of the batch, by that partition's clock (apply_outbox).

A call deletes at most `max_batches`. It skips batches that workers are delivering now. Returns how many batches were
deleted, and how many events they held. If it deleted fewer than `max_batches`, nothing is left to delete, with one
exception: if the subscriber has subscribed again, and has hundreds of batches that must stay, some old batches may stay
too.
]]
local batches = include('delivering/batches')
local delivery_log = include('records/delivery_log')
local dropping = include('maintenance/dropping')
local jobs = include('delivering/jobs')
local open_batches = include('delivering/open_batches')

-- Returns true if a batch belongs to a new subscription: it is open, or was closed after `until_ms`. When the
-- subscriber left, it had no open batch any more.
local function is_of_new(call, open, bid, until_ms)
  return bid == open or (tonumber(open_batches.closed_ms(call, bid)) or 0) > until_ms
end

return function(call, args)
  local keys, token = call.keys, args.token
  local held, held_count = dropping.jobs_held(call)
  local records = delivery_log.drops('unsubscribed', args.delivery_log)
  local collection, dropped, events = dropping.begin(records), 0, 0
  local is_back, open = redis.call('SISMEMBER', keys.subscribers(), token) == 1, open_batches.bid_of(call, token)
  -- Reads more than `max_batches`, because some of the batches may stay: those that workers are delivering, and the
  -- open one.
  for _, bid in ipairs(redis.call('ZRANGE', keys.batches_queued(token), 0, args.max_batches + held_count)) do
    local job = jobs.delivery_of(bid)
    -- `until_ms` is compared with the creation time in the batch, not with the batch's score in `batches_queued`. The
    -- score can be later: a batch of an `ordered` subscriber always gets a higher score than the batch before it.
    local _, created_ms, attempts = unpack(redis.call('LRANGE', keys.batch(bid), 0, batches.HEADER - 1))
    local is_old = (tonumber(created_ms) or 0) <= args.until_ms
      and not (is_back and is_of_new(call, open, bid, args.until_ms))
    if dropped < args.max_batches and not held[job] and is_old then
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
