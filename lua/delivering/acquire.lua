#!lua flags=allow-oom
--[[
acquire: finish the jobs that workers have done, and assign ready jobs, the oldest first, to idle workers. Each worker
gets at most one job.

Finished jobs are deleted first, with the batches that they delivered, so that a worker gets its next job from the same
call. An accepted batch adds health points to its subscriber, and lets a subscriber that was failing or new have more
than one delivery in flight. If the delivery took long, the subscriber becomes slow. Nothing changes for a job that its
worker does not hold under the given lease. When a delivery is assigned, the same call also closes its batch to new
events and counts the attempt.

If a worker already holds a job, the reply that assigned it was lost, so the worker gets the same job again. The worker
keeps its lease unless the lease has expired: if this call was delayed, the worker may be running the job already.

The first attempt at a batch carries no more than max_events and max_bytes of its subscriber, but at least one event. A
larger batch is cut: the worker gets the first events as a new batch, and the batch with the other events is ready
again.

`kind` is the kind of the workers. Spare workers (`spare`) begin a second delivery to a subscriber only if the other
subscribers leave enough workers. A `quarantine` is one worker in a process of its own. It gets the jobs of batches that
may have killed workers, and no others. If a subscriber may have no more deliveries in flight, its job waits until one
of them ends (waiting.lua). The job of a slow, new or failing subscriber or of a join may also wait because all
subscribers of this kind together use as many workers as they may (their share, shares.lua).

The first item of the reply is MessagePack, because Node decodes it faster than separate values:

  ready_jobs   the number of jobs that are still ready
  now_ms       the time by Redis's clock
  acks         held (1 or 0), number of events removed, gone (1 or 0); for each finished job
  subscribers  token, list of the values of DELIVERY_FIELDS (grants.lua); for each subscriber
  grants       lists of worker, lease, batch, drop notice; the last two only for deliveries. The batch is a list
               of subscriber, time of creation, attempts, number of events, number of pieces. The notice is a
               list of field, value, …

Then each grant has one item for its packed job and one for each piece of its batch. A piece is JSON texts joined with
commas, or one event that is not JSON. A long batch (cutting.lua) has no pieces: the worker reads its events.
]]
local calls = include('store/calls')
local choosing = include('delivering/choosing')
local finishing = include('delivering/finishing')
local grants = include('delivering/grants')
local leases = include('delivering/leases')
local live_workers = include('delivering/live_workers')
local slow_deliveries = include('delivering/slow_deliveries')

-- Returns a table of the jobs that these idle workers hold, by worker. An idle worker holds a job only if the reply
-- that gave it the job was lost, so the table is usually empty.
local function held_by(call, q, workers)
  local held, lists = {}, {}
  for i, worker in ipairs(workers) do lists[i] = call.keys.jobs_pending(q, worker) end
  if #lists == 0 or redis.call('EXISTS', unpack(lists)) == 0 then return held end
  for i, worker in ipairs(workers) do held[worker] = redis.call('LINDEX', lists[i], 0) end
  return held
end

local function serve(call, given, worker, held, lease)
  if held then
    grants.give_again(call, given, worker, held, lease)
  else
    grants.give_next(call, given, worker)
  end
  return true
end

-- Returns the field `acks` of the reply: three numbers for each finished job.
--   - held: 1 if the worker still held the job, otherwise 0
--   - events: the number of events in the job's batch; 0 if the worker did not hold the job
--   - gone: 1 if the worker did not hold the job, and the job's batch exists neither as a batch nor as a dead letter. A
--     worker whose reply was lost repeats the call. It learns from `gone` that its first call deleted the batch
local function acks_of(call, finished, removed)
  local acks = {}
  for i, events in ipairs(removed) do
    local bid = finished[i].bid
    local is_gone = not events and bid and redis.call('EXISTS', call.keys.batch(bid), call.keys.dead_letter(bid)) == 0
    acks[3 * i - 2], acks[3 * i - 1], acks[3 * i] = events and 1 or 0, events or 0, is_gone and 1 or 0
  end
  return acks
end

return function(call, args)
  local q, workers = args.q, args.workers
  local removed = finishing.finish_all(call, args, args.finished)
  -- Finished deliveries may have made jobs instant. This call does not wake other workers yet, because it may assign
  -- all of these jobs itself. If it does not, it wakes them below.
  local became_instant = call.wakes.main
  call.wakes.main = nil
  local acks = acks_of(call, args.finished, removed)
  -- Read the leases before `note_alive` renews them. After that, an expired lease would look valid, and its worker
  -- would not get a new one.
  local held = held_by(call, q, workers)
  local lease_of = next(held) and leases.of(call, workers, args.lease_ms) or {}
  live_workers.note_alive(call, q, workers)
  if #workers > 0 then slow_deliveries.notice(call, args.slow_ms) end
  local choice = choosing.begin(call, args)
  local given = grants.begin(choice, args.uid_seed)
  for _, worker in ipairs(workers) do
    local is_served = calls.throw_later(call, serve, given, worker, held[worker], lease_of[worker])
    if not is_served then grants.take_back(call, given, worker) end
  end
  choosing.put_back(call, choice)
  local subscribers = grants.store(call, given)
  local ready_jobs = choice.is_exhausted and 0 or choosing.count_ready(call, q, args.kind, choice.waiting_by_share)
  -- Wake other workers if this call has not assigned all jobs that became instant. A call of the kind `quarantine`
  -- assigns only jobs of suspects, which are not among them.
  if became_instant and (ready_jobs > 0 or args.kind == 'quarantine') then call.wakes[q] = true end
  given.reply_items[1] = cmsgpack.pack({ ready_jobs, call.now_ms, acks, subscribers, given.list })
  return given.reply_items
end
