#!lua flags=allow-oom
--[[
acquire: finish the jobs that workers have done, and assign ready jobs to idle workers: at most one each,
oldest first.

Finished jobs are acknowledged first, as by ack: so one call serves many workers, and each has its next job by
the same call. A worker that already holds a job gets the same one again, as the reply that gave it was lost.
If that lease has not run out it goes on, as this call may be the one that was held back on its way. A batch
is closed to events and its attempt counted in the same step. A delivery for which the lane of its subscriber
has no room waits outside the queue until the lane brings it back. One for which its share has no
room waits for that.

The reply begins with a text in MessagePack, which Node reads sooner than a reply of so many values:
  left         how many jobs are ready still
  now_ms
  acks         held (1 or 0), removed events; for each finished job
  subscribers  token, list of callback, uuid, subscribed_at, health_points, max_attempts, max_age, signing;
               for each subscriber
  grants       lists of worker, lease, batch, drop notice; the last two only for deliveries. The batch is a list
               of subscriber, created, attempts, how many events, in how many pieces; the notice is field, value, …
Then, for each grant, come its packed job and the pieces of its batch: JSON texts joined with commas, or one
event that is not JSON.
]]
local calls = include('calls')
local choosing = include('choosing')
local finishing = include('finishing')
local grants = include('grants')
local lane_entry = include('lane_entry')
local lanes = include('lanes')
local leases = include('leases')

-- The jobs that idle workers hold, by worker. There are none, unless a reply was lost.
local function held_by(call, q, workers)
  local held, lists = {}, {}
  for i, worker in ipairs(workers) do lists[i] = call.keys.jobs_pending(q, worker) end
  if #lists == 0 or redis.call('EXISTS', unpack(lists)) == 0 then return held end
  for i, worker in ipairs(workers) do held[worker] = redis.call('LINDEX', lists[i], 0) end
  return held
end

local function note_alive(call, q, workers)
  local heard, now = {}, string.format('%d', call.now_ms)
  for i, worker in ipairs(workers) do heard[2 * i - 1], heard[2 * i] = worker, now end
  -- A worker that is new here is one of those that may deliver.
  if #heard > 0 and redis.call('HSET', call.keys.workers(), unpack(heard)) > 0 and q == 'main' then
    redis.call('SADD', call.keys.workers_main(), unpack(workers))
  end
end

local function serve(call, given, worker, held, lease)
  if held then return grants.give_again(call, given, worker, held, lease) end
  grants.give_next(call, given, worker)
end

local function acks_of(removed)
  local acks = {}
  for i, events in ipairs(removed) do acks[2 * i - 1], acks[2 * i] = events and 1 or 0, events or 0 end
  return acks
end

return function(call, args)
  local q, workers = args.q, args.workers
  local removed, came_back = finishing.finish_all(call, args, args.finished)
  -- Read before the heartbeat: what the workers hold, and the leases that have not run out.
  local held = held_by(call, q, workers)
  local lease_of = next(held) and leases.of(call, workers, args.lease_ms) or {}
  note_alive(call, q, workers)
  local choice = choosing.begin(call, q, #workers)
  local given = grants.begin(choice, lane_entry.reader(args.lane_limit, args.lane_limit_max))
  for _, worker in ipairs(workers) do
    calls.try(call, serve, given, worker, held[worker], lease_of[worker])
  end
  choosing.put_back(call, choice)
  local subscribers = grants.settle(call, given)
  local left = lanes.count_ready(call, q)
  -- More jobs came back than these workers take.
  if came_back and left > 0 then call.wakes[q] = true end
  given.pieces[1] = cmsgpack.pack({ left, call.now_ms, acks_of(removed), subscribers, given.list })
  return given.pieces
end
