--[[
Finishing: deletes the jobs that workers have finished, and the batches that these jobs delivered.

The deliveries that one script call finishes belong to few subscribers. So the changes to subscribers, and to the
numbers of their deliveries in flight, are collected first, and written once for each subscriber.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local delivery_log = include('records/delivery_log')
local drop_notices = include('delivering/drop_notices')
local lanes = include('delivering/lanes')
local leases = include('delivering/leases')
local open_batches = include('delivering/open_batches')
local subscribers = include('delivering/subscribers')
local waiting = include('delivering/waiting')
local finishing = {}

-- Makes the table that collects what must be written to Redis for the finished jobs. A batch is finished when it was
-- accepted, or when its subscriber has left. Some fields:
--   lists        the Redis keys of the finished batches
--   attempts     the Redis keys of their histories of failed attempts
--   accepted     for each subscriber: its finished batches, and the sums of their events and health points
--   undelivered  records for the delivery log about batches that were not sent, because their subscriber had left;
--                false if there are none
--   closed       for each finished batch: the time (ms) at which it stopped taking new events
local function collection(args, closed)
  return {
    workers = {}, tokens = {}, jobs = {}, bids = {}, lists = {}, attempts = {}, accepted = {}, closed = closed,
    delivery_log = args.delivery_log, undelivered = false,
  }
end

-- Collects the record of a finished batch for the delivery log. If the log is on and `each.record` is missing, the
-- batch was not sent, because its subscriber had left. Such a batch is recorded as dropped.
local function add_record(call, collected, token, sum, each, events)
  if each.record then
    local count = #sum.records
    sum.records[count + 1] = each.bid
    sum.records[count + 2] = delivery_log.ended_now(call, collected.closed[each.bid], each.record)
  elseif collected.delivery_log > 0 then
    collected.undelivered = collected.undelivered or delivery_log.drops('unsubscribed', collected.delivery_log)
    local _, created_ms, attempts = batches.read_header(call.keys.batch(each.bid))
    local about = { token = token, created_ms = created_ms, attempts = attempts, events = events }
    delivery_log.add_drop(call, collected.undelivered, each.bid, about)
  end
end

local function add_accepted(call, collected, token, each, events)
  local sum = collected.accepted[token] or { events = 0, heal = 0, bids = {}, records = {} }
  collected.accepted[token] = sum
  sum.events = sum.events + events
  sum.heal = sum.heal + each.heal
  sum.took_ms = each.took_ms
  sum.bids[#sum.bids + 1] = each.bid
  add_record(call, collected, token, sum, each, events)
end

-- Finishes one job. Returns the number of events in its batch (0 if there is no batch), or nothing if the worker does
-- not hold the job. `delivers_to` is the token of the subscriber to which the worker delivered, or false if none is
-- stored.
local function finish(call, q, each, delivers_to, lease_of, collected)
  if not leases.take_job(call, q, each.worker, each.job, each.lease, lease_of) then return end
  collected.workers[#collected.workers + 1] = each.worker
  collected.tokens[#collected.tokens + 1] = delivers_to
  collected.jobs[#collected.jobs + 1] = each.job
  if not each.bid then return 0 end
  collected.bids[#collected.bids + 1] = each.bid
  local batch = call.keys.batch(each.bid)
  local token = delivers_to or redis.call('LINDEX', batch, 0)
  local events = redis.call('LLEN', batch) - batches.HEADER
  -- The batch no longer exists.
  if not token or events < 0 then return 0 end
  collected.lists[#collected.lists + 1] = batch
  collected.attempts[#collected.attempts + 1] = call.keys.attempts(each.bid)
  add_accepted(call, collected, token, each, events)
  return events
end

-- Updates a subscriber that has accepted batches. `sum` has the UIDs of these batches, and the sums of their events and
-- health points. If `may_have_notice` is false, none of them carried a drop notice. Returns a true value if the
-- subscriber could have only one job at a time until now, for example because it was failing or new.
local function update_subscriber(call, token, sum, args, may_have_notice)
  redis.call('ZREM', call.keys.batches_queued(token), unpack(sum.bids))
  batches.count_out(call, token, #sum.bids, sum.events)
  if may_have_notice then drop_notices.forget(call, token, sum.bids) end
  local exists, recovered = subscribers.heal(call, token, sum, args.slow_ms)
  if exists then delivery_log.append(call, 'taken', token, sum.records, args.delivery_log) end
  return recovered
end

local function end_retries(call, token, sum)
  redis.call('ZREM', call.keys.batches_retrying(token), unpack(sum.bids))
  for i = 1, #sum.records, 2 do
    sum.records[i + 1] = sum.records[i + 1] .. delivery_log.failures(call, sum.records[i])
  end
end

-- Deletes the lists of the finished batches, and the histories of their failed attempts. Returns true if one of these
-- batches may have carried a drop notice. Usually there is no history and no notice: one EXISTS command finds this out.
local function delete_lists(call, collected)
  local rare, count = collected.attempts, #collected.attempts
  redis.call('UNLINK', unpack(collected.lists))
  for token in pairs(collected.accepted) do
    rare[#rare + 1] = call.keys.batches_retrying(token)
    rare[#rare + 1] = call.keys.drop_notice_carried(token)
  end
  if redis.call('EXISTS', unpack(rare)) == 0 then return false end
  for token, sum in pairs(collected.accepted) do calls.throw_later(call, end_retries, token, sum) end
  redis.call('UNLINK', unpack(rare, 1, count))
  return true
end

-- Makes waiting jobs of a subscriber ready for workers, after `ended` of its deliveries have ended. Each ended delivery
-- makes two jobs ready, so that 4 deliveries at a time become 8, then 16. If the subscriber could have only one at a
-- time until now (`recovered`), as many jobs become ready as its limit of deliveries in flight permits. Jobs above this
-- limit stay, because they could not run yet.
local function go_on(call, token, ended, recovered, args)
  if redis.call('EXISTS', call.keys.jobs_waiting(token)) == 0 then return end
  local own_limit, max_bytes = unpack(redis.call('HMGET', call.keys.subscriber(token), 'max_in_flight', 'max_bytes'))
  local in_flight = tonumber(redis.call('HGET', call.keys.lanes_in_flight(), token)) or 0
  local room = math.max(0, lanes.width(call, own_limit, max_bytes, args) - in_flight)
  waiting.make_instant(call, token, recovered and room or math.min(2 * ended, room))
end

-- Writes the collected changes to Redis. An error at one subscriber does not stop the changes of the others.
local function write_changes(call, collected, args)
  local keys = call.keys
  redis.call('HDEL', keys.leases(), unpack(collected.workers))
  redis.call('SREM', keys.jobs_index(args.q), unpack(collected.jobs))
  if #collected.bids > 0 then redis.call('ZREM', keys.batches_index(), unpack(collected.bids)) end
  local may_have_notice = #collected.lists > 0 and delete_lists(call, collected)
  if #collected.bids > 0 and next(collected.closed) then open_batches.forget_closed(call, collected.bids) end
  local ended, recovered, tokens = lanes.leave_all(call, collected.workers, collected.tokens), {}, {}
  for token, sum in pairs(collected.accepted) do
    recovered[token] = calls.throw_later(call, update_subscriber, token, sum, args, may_have_notice)
    tokens[#tokens + 1] = token
  end
  delivery_log.follow(call, 'taken', tokens, args.delivery_log)
  if collected.undelivered then delivery_log.write_drops(call, collected.undelivered) end
  for token, count in pairs(ended) do
    calls.throw_later(call, go_on, token, count, recovered[token], args)
  end
end

-- Finishes each job that its worker still holds under the given lease. `args` has q, lease_ms, lane_limit,
-- lane_limit_max, slow_ms and delivery_log. Returns, for each job, the number of events in its batch, or false if the
-- worker does not hold the job.
function finishing.finish_all(call, args, finished)
  if #finished == 0 then return {} end
  local workers, bids, removed = {}, {}, {}
  for i, each in ipairs(finished) do
    workers[i] = each.worker
    bids[#bids + 1] = each.bid
  end
  local collected = collection(args, open_batches.closed_times(call, bids))
  local lease_of, token_of = leases.of(call, workers, args.lease_ms), lanes.subscribers_of(call, workers)
  for i, each in ipairs(finished) do
    removed[i] = calls.throw_later(call, finish, args.q, each, token_of[i], lease_of, collected) or false
  end
  if #collected.workers > 0 then write_changes(call, collected, args) end
  return removed
end

return finishing
