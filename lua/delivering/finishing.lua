--[[
Finishing: deletes the jobs that workers have finished, and the batches that these jobs delivered. A batch is finished
when it was accepted, or when its subscriber has left. Only accepted ones have a `record`.

  take_all   takes each job from its worker, and sums up by subscriber what the batches change. So each subscriber is
             written only once, however many of its batches are finished
  write      deletes jobs and batches, ends the deliveries, updates each subscriber, and then lets jobs that waited for
             these deliveries go on
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

-- Adds a finished batch to the sums of its subscriber: the UIDs of the finished batches, the sums of their events and
-- health points, and the records (UID, record, …) of the accepted ones for the delivery log.
local function sum_up(call, taken, token, each, events)
  local sum = taken.by_token[token] or { events = 0, heal = 0, bids = {}, records = {} }
  taken.by_token[token] = sum
  sum.events = sum.events + events
  sum.heal = sum.heal + each.heal
  sum.took_ms = each.took_ms
  sum.bids[#sum.bids + 1] = each.bid
  if each.record then
    sum.records[#sum.records + 1] = each.bid
    sum.records[#sum.records + 1] = delivery_log.ended_now(call, taken.closed[each.bid], each.record)
  end
end

-- Collects the record of a batch that was not sent, because its subscriber had left. It is recorded as dropped.
local function add_drop(call, drops, bid, token, events)
  local _, created_ms, attempts = batches.read_header(call.keys.batch(bid))
  local about = { token = token, created_ms = created_ms, attempts = attempts, events = events }
  delivery_log.add_drop(call, drops, bid, about)
end

-- Adds the batch of a job to `taken`. Returns the number of its events, or 0 if the batch no longer exists.
local function take_batch(call, args, each, delivers_to, taken)
  taken.bids[#taken.bids + 1] = each.bid
  local batch = call.keys.batch(each.bid)
  local token, events = delivers_to or redis.call('LINDEX', batch, 0), batches.count_events(call, each.bid)
  local exists = token and events >= 0
  if not exists then return 0 end
  taken.lists[#taken.lists + 1] = batch
  sum_up(call, taken, token, each, events)
  if not each.record and args.delivery_log > 0 then add_drop(call, taken.drops, each.bid, token, events) end
  return events
end

-- Takes one job from its worker, and adds the job and its batch to `taken`. Returns the number of events in the batch
-- (0 if there is no batch), or nothing if the worker does not hold the job. `delivers_to` is the token of the worker's
-- subscriber, or false if no token is stored for the worker.
local function take(call, args, each, delivers_to, lease_of, taken)
  if not leases.take_job(call, args.q, each.worker, each.job, each.lease, lease_of) then return end
  taken.workers[#taken.workers + 1] = each.worker
  taken.tokens[#taken.tokens + 1] = delivers_to
  taken.jobs[#taken.jobs + 1] = each.job
  return each.bid and take_batch(call, args, each, delivers_to, taken) or 0
end

-- Takes the jobs from those workers that still hold them under the given lease. Returns two tables. The first has, for
-- each job, the result of `take`, or false if the job was not taken. The second has what was taken:
--   workers   the workers that have finished
--   tokens    for each of these workers: the token of its subscriber, or false
--   jobs      their jobs
--   bids      the UIDs of the batches, even of those that no longer exist
--   lists     the Redis keys of the batches that exist
--   by_token  the sums of each subscriber (see `sum_up`)
--   drops     the records of batches whose subscriber had left
--   closed    for each batch: the time (ms) at which it was closed to new events
local function take_all(call, args, finished)
  local workers, bids, removed = {}, {}, {}
  for i, each in ipairs(finished) do
    workers[i] = each.worker
    bids[#bids + 1] = each.bid
  end
  local taken = {
    workers = {}, tokens = {}, jobs = {}, bids = {}, lists = {}, by_token = {},
    drops = delivery_log.drops('unsubscribed', args.delivery_log), closed = open_batches.closed_times(call, bids),
  }
  local lease_of, token_of = leases.of(call, workers, args.lease_ms), lanes.subscribers_of(call, workers)
  for i, each in ipairs(finished) do
    removed[i] = calls.throw_later(call, take, args, each, token_of[i], lease_of, taken) or false
  end
  return removed, taken
end

-- Adds the failed attempts at a subscriber's batches to the records of these batches.
local function add_failures(call, records)
  for i = 1, #records, 2 do records[i + 1] = records[i + 1] .. delivery_log.failures(call, records[i]) end
end

-- Deletes finished batches. If an accepted batch has a history of failed attempts, which is rare, these attempts are
-- first added to its record.
local function delete_batches(call, taken)
  local bids, attempts = taken.bids, calls.map(taken.bids, call.keys.attempts)
  redis.call('ZREM', call.keys.batches_index(), unpack(bids))
  if #taken.lists > 0 then redis.call('UNLINK', unpack(taken.lists)) end
  open_batches.forget_closed(call, bids)
  if redis.call('EXISTS', unpack(attempts)) == 0 then return end
  for _, sum in pairs(taken.by_token) do calls.throw_later(call, add_failures, sum.records) end
  redis.call('UNLINK', unpack(attempts))
end

-- Updates a subscriber after its batches in `sum` have finished. Returns a true value if the subscriber was limited to
-- one delivery at a time until now, for example because it was failing or new.
local function update_subscriber(call, token, sum, args)
  redis.call('ZREM', call.keys.batches_queued(token), unpack(sum.bids))
  batches.count_out(call, token, #sum.bids, sum.events)
  drop_notices.forget(call, token, sum.bids)
  local exists, recovered = subscribers.heal(call, token, sum, args.slow_ms)
  if exists then delivery_log.append(call, 'taken', token, sum.records, args.delivery_log) end
  return recovered
end

-- Removes finished batches from the batches that will be tried again. This is a step of its own, so that it is done
-- even if another step fails for this subscriber.
local function end_retries(call, token, sum)
  redis.call('ZREM', call.keys.batches_retrying(token), unpack(sum.bids))
end

-- Makes waiting jobs of a subscriber instant after `ended` of its deliveries have ended. Each ended delivery makes two
-- jobs instant, so that 4 deliveries at a time become 8, then 16, up to the subscriber's limit of deliveries in flight.
-- If the subscriber was limited to one delivery at a time until now (`recovered`), as many jobs become instant as the
-- limit permits.
local function go_on(call, token, ended, recovered, args)
  if redis.call('EXISTS', call.keys.jobs_waiting(token)) == 0 then return end
  local own_limit, max_bytes = unpack(redis.call('HMGET', call.keys.subscriber(token), 'max_in_flight', 'max_bytes'))
  local in_flight = tonumber(redis.call('HGET', call.keys.lanes_in_flight(), token)) or 0
  local room = math.max(0, lanes.width(call, own_limit, max_bytes, args) - in_flight)
  waiting.make_instant(call, token, recovered and room or math.min(2 * ended, room))
end

-- Deletes the jobs that `take_all` took from their workers, and the batches of these jobs. Updates the subscribers. An
-- error at one subscriber does not stop the changes of the others.
local function write(call, taken, args)
  local recovered, tokens = {}, {}
  redis.call('HDEL', call.keys.leases(), unpack(taken.workers))
  redis.call('SREM', call.keys.jobs_index(args.q), unpack(taken.jobs))
  if #taken.bids > 0 then delete_batches(call, taken) end
  local ended = lanes.leave_all(call, taken.workers, taken.tokens)
  for token, sum in pairs(taken.by_token) do
    calls.throw_later(call, end_retries, token, sum)
    recovered[token] = calls.throw_later(call, update_subscriber, token, sum, args)
    tokens[#tokens + 1] = token
  end
  delivery_log.follow(call, 'taken', tokens, args.delivery_log)
  delivery_log.write_drops(call, taken.drops)
  for token, count in pairs(ended) do
    calls.throw_later(call, go_on, token, count, recovered[token], args)
  end
end

-- Finishes each job that its worker still holds under the given lease. `args` has q, lease_ms, lane_limit,
-- lane_limit_max, slow_ms and delivery_log. Returns, for each job, the number of events in its batch, or false if the
-- worker does not hold the job.
function finishing.finish_all(call, args, finished)
  if #finished == 0 then return {} end
  local removed, taken = take_all(call, args, finished)
  if #taken.workers > 0 then write(call, taken, args) end
  return removed
end

return finishing
