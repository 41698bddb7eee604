#!lua flags=allow-oom
--[[
autodrop: free memory by deleting the oldest dead letters, and then the oldest batches with their jobs.

Each of `orders` names a subscriber, or none for all subscribers together, and the maximum of dead letters and
batches to delete. For each order, the reply says how many were `deleted`. `is_spent` is true if nothing else of the
subscriber can be deleted. Batches that workers are delivering now are skipped. Every dropped event is counted for its
subscriber: in the next drop notice, and in the sum `dropped:{token}`. The events of a batch are counted by topic before
it is deleted, which takes several script calls for a large batch. Until the last of these calls deletes the batch, it
stays unchanged and can be delivered.

`drops` has one entry for each subscriber with dropped events: `queued` of these events were in batches, the others in
dead letters. `begun_bid`, `begun_items` and `begun_topics` describe a batch that is not counted to its end. The caller
passes them to the next call, whose first order must be the same.
]]
local dead_letters = include('delivering/dead_letters/dead_letters')
local delivery_log = include('records/delivery_log')
local drop_sums = include('maintenance/drop_sums')
local dropping = include('maintenance/dropping')
local jobs = include('delivering/jobs')

-- Estimated time (µs) that Redis takes to begin an order (a request to drop), to delete a dead letter, and to delete a
-- batch. A script call stops when all these times together reach MAX_WORK (drop_sums.lua).
local WORK_OF = { order = 4, dead_letter = 25, batch = 6 }

local function drop_dead_letters(call, run, order)
  for _, bid in ipairs(redis.call('ZRANGE', order.letters, 0, order.max_deleted - 1)) do
    if not drop_sums.has_room(run.sums) then return end
    local about = drop_sums.note(call, run.sums, bid, call.keys.dead_letter(bid), false)
    if about then
      if about.token then delivery_log.add_drop(call, run.collection.log, bid, about) end
      if not dead_letters.delete(call, bid) then redis.call('ZREM', order.letters, bid) end
      order.deleted = order.deleted + 1
      run.sums.work = run.sums.work + WORK_OF.dead_letter
    end
  end
end

local function drop_batches(call, run, order)
  local max = order.max_deleted - order.deleted
  if max == 0 then return end
  for _, bid in ipairs(redis.call('ZRANGE', order.queue, 0, max + run.held_count - 1)) do
    if not drop_sums.has_room(run.sums) or order.deleted == order.max_deleted then return end
    local is_held = run.held[jobs.delivery_of(bid)]
    local about = not is_held and drop_sums.note(call, run.sums, bid, call.keys.batch(bid), true)
    if about then
      if not about.token then redis.call('ZREM', order.queue, bid) end
      dropping.add(call, run.collection, bid, about)
      order.deleted = order.deleted + 1
      run.sums.work = run.sums.work + WORK_OF.batch
    end
  end
end

-- Carries out an order (`wanted`): drops the oldest dead letters, then the oldest batches, of the subscriber
-- `wanted.token`, or of all subscribers if there is no token. Stops at the maximum work of a script call. Returns how
-- many it dropped (`deleted`), and whether there are no more to drop (`is_spent`).
local function carry_out(call, run, wanted)
  local keys, token = call.keys, wanted.token
  local order = {
    letters = token and keys.dead_letters_of(token) or keys.dead_letters_index(),
    queue = token and keys.batches_queued(token) or keys.batches_index(),
    max_deleted = wanted.max_deleted, deleted = 0,
  }
  run.sums.work = run.sums.work + WORK_OF.order
  drop_dead_letters(call, run, order)
  drop_batches(call, run, order)
  return { deleted = order.deleted, is_spent = order.deleted < order.max_deleted and drop_sums.has_room(run.sums) }
end

return function(call, args)
  local held, held_count = dropping.jobs_held(call)
  local run = {
    sums = drop_sums.begin(args), collection = dropping.begin(delivery_log.drops('memory', args.delivery_log)),
    held = held, held_count = held_count,
  }
  local orders = {}
  for i, wanted in ipairs(args.orders) do
    if not drop_sums.has_room(run.sums) then break end
    orders[i] = carry_out(call, run, wanted)
  end
  dropping.delete_all(call, run.collection)
  local dropped, begun = drop_sums.finish(call, run.sums)
  return {
    orders = orders, drops = dropped, begun_bid = begun.bid, begun_items = begun.at, begun_topics = begun.topics,
  }
end
