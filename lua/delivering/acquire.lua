#!lua flags=allow-oom
--[[
acquire: finish the jobs that workers have done, and assign ready jobs to idle workers, at most one job each.

  1. finishing.lua      deletes finished jobs, with the batches that they delivered
  2. live_workers.lua   notes that the idle workers are alive; slow_deliveries.lua notes which subscribers are slow
  3. grants.lua         gives each idle worker a job:
       choosing.lua       finds the next job that may run, the oldest first
         lane_entry.lua     asks lanes.lua and shares.lua whether the job may run, and makes it wait if not
       cutting.lua        reads the events of the job's batch
         parts.lua          cuts the batch in two if it is too large
  4. grants.lua         stores the leases, and which worker delivers to which subscriber

Finishing comes first, so that a worker gets its next job from the same call. Nothing changes for a job that its worker
does not hold under the given lease. When a delivery is assigned, its batch is closed to new events, and the attempt is
counted. The first attempt at a batch carries no more than max_events and max_bytes of its subscriber, but at least one
event.

If a worker already holds a job, the reply that assigned it was lost, so the worker gets the same job again. The worker
keeps its lease unless the lease has expired: if this call was delayed, the worker may be running the job already.

`kind` is the kind of the workers. Spare workers (`spare`) begin a second delivery to a subscriber only if the other
subscribers leave enough workers. A `quarantine` is one worker in a process of its own. It gets the jobs of batches that
may have killed workers, and no others.

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

-- Finishes jobs. Returns the field `acks` of the reply: three numbers for each job.
--   - held: 1 if the worker still held the job, otherwise 0
--   - events: the number of events in the job's batch; 0 if the worker did not hold the job
--   - gone: 1 if the worker did not hold the job, and the job's batch exists neither as a batch nor as a dead letter. A
--     worker whose reply was lost repeats the call. It learns from `gone` that its first call deleted the batch
local function finish(call, args)
  local acks = {}
  for i, events in ipairs(finishing.finish_all(call, args, args.finished)) do
    local bid = args.finished[i].bid
    local is_gone = not events and bid and redis.call('EXISTS', call.keys.batch(bid), call.keys.dead_letter(bid)) == 0
    acks[3 * i - 2], acks[3 * i - 1], acks[3 * i] = events and 1 or 0, events or 0, is_gone and 1 or 0
  end
  return acks
end

-- Returns two tables by worker: the jobs that these idle workers hold, and the numbers of the leases that have not
-- expired. An idle worker holds a job only if the reply that gave it the job was lost, so both are usually empty.
local function held_by(call, args)
  local held, lists = {}, {}
  for i, worker in ipairs(args.workers) do lists[i] = call.keys.jobs_pending(args.q, worker) end
  if #lists == 0 or redis.call('EXISTS', unpack(lists)) == 0 then return held, {} end
  for i, worker in ipairs(args.workers) do held[worker] = redis.call('LINDEX', lists[i], 0) end
  return held, leases.of(call, args.workers, args.lease_ms)
end

local function serve(call, given, worker, held, lease)
  if held then
    grants.give_again(call, given, worker, held, lease)
  else
    grants.give_next(call, given, worker)
  end
  return true
end

-- Gives each worker the job that it holds already, or the next one. Returns the grants (see `grants.begin`).
local function serve_all(call, args, held, lease_of)
  local given = grants.begin(choosing.begin(call, args), args.uid_seed)
  for _, worker in ipairs(args.workers) do
    local is_served = calls.throw_later(call, serve, given, worker, held[worker], lease_of[worker])
    if not is_served then grants.take_back(call, given, worker) end
  end
  choosing.put_back(call, given.choice)
  return given
end

-- Returns the number of jobs that are still ready. If it is 0, this call has itself assigned all jobs that it made
-- ready, so no other workers are woken for them. A call of a quarantine wakes them even then, because a quarantine
-- assigns none of these jobs.
local function count_ready(call, args, choice)
  local ready = choice.is_exhausted and 0 or choosing.count_ready(call, args.q, args.kind, choice.waiting_by_share)
  if ready == 0 and args.kind ~= 'quarantine' then call.wakes[args.q] = nil end
  return ready
end

return function(call, args)
  local acks = finish(call, args)
  -- The leases are read before `note_alive` renews them. After it, an expired lease would look valid, and its worker
  -- would keep the lease.
  local held, lease_of = held_by(call, args)
  live_workers.note_alive(call, args.q, args.workers)
  if #args.workers > 0 then slow_deliveries.notice(call, args.slow_ms) end
  local given = serve_all(call, args, held, lease_of)
  local subscribers = grants.store(call, given)
  local ready_jobs = count_ready(call, args, given.choice)
  given.reply_items[1] = cmsgpack.pack({ ready_jobs, call.now_ms, acks, subscribers, given.list })
  return given.reply_items
end
