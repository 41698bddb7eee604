--[[
Dropping: deletes undelivered batches together with their jobs.

A script collects the batches that it drops. `delete_all` then deletes all of them with a few commands, because a
command for each batch took twice as long.
]]
local batches = include('delivering/batches')
local delivery_log = include('records/delivery_log')
local jobs = include('delivering/jobs')
local open_batches = include('delivering/open_batches')
local waiting = include('delivering/waiting')
local dropping = {}

-- Returns the jobs of deliveries that workers hold, as a table from each job to its worker, and the number of these
-- jobs. Their batches must not be dropped, because they are being delivered.
function dropping.jobs_held(call)
  local held, count = {}, 0
  for _, worker in ipairs(redis.call('SMEMBERS', call.keys.jobs_pending_index('main'))) do
    local job = redis.call('LINDEX', call.keys.jobs_pending('main', worker), 0)
    if job then
      held[job] = worker
      count = count + 1
    end
  end
  return held, count
end

-- Creates an empty collection of batches to drop. Its fields:
--   bids      UIDs of the batches
--   jobs      jobs that deliver the batches
--   lists     Redis keys of the batches, and of the histories of their attempts
--   dropped   a set of all UIDs and jobs, for quick look-ups
--   by_token  for each subscriber: the UIDs of its batches, their jobs, and how many events they have
--   log       records of the batches for the delivery log
function dropping.begin(log)
  return { bids = {}, jobs = {}, lists = {}, dropped = {}, by_token = {}, log = log }
end

-- Adds a batch to the collection. `about` describes the batch for the delivery log. If the batch's list is gone,
-- `about` has no `token`; then only the job and the index entries of the batch are left to remove.
function dropping.add(call, collection, bid, about)
  local job = jobs.delivery_of(bid)
  collection.dropped[bid], collection.dropped[job] = true, true
  collection.bids[#collection.bids + 1] = bid
  collection.jobs[#collection.jobs + 1] = job
  collection.lists[#collection.lists + 1] = call.keys.batch(bid)
  collection.lists[#collection.lists + 1] = call.keys.attempts(bid)
  local token = about.token
  if not token then return end
  local of_token = collection.by_token[token] or { bids = {}, jobs = {}, events = 0 }
  collection.by_token[token] = of_token
  of_token.bids[#of_token.bids + 1] = bid
  of_token.jobs[#of_token.jobs + 1] = job
  of_token.events = of_token.events + about.events
  delivery_log.add_drop(call, collection.log, bid, about)
end

-- Brings a subscriber's lane up to date after some of its batches were dropped:
--   - Removes the jobs of these batches from the waiting jobs.
--   - Forgets the subscriber's probe if it was one of these jobs. Otherwise the other jobs would wait for it for ever.
--   - Makes a waiting job instant for each dropped job that was not waiting. Usually a job that ends makes a waiting
--     job instant, but a dropped job never ends.
function dropping.update_lane(call, collection, token, dropped_jobs)
  local waiting_count = redis.call('ZREM', call.keys.jobs_waiting(token), unpack(dropped_jobs))
  if waiting_count == #dropped_jobs then return end
  local probe = redis.call('HGET', call.keys.subscriber(token), 'probe')
  if probe and collection.dropped[probe] then redis.call('HDEL', call.keys.subscriber(token), 'probe') end
  waiting.make_instant(call, token, #dropped_jobs - waiting_count)
end

-- Deletes the collected batches with their jobs, and stores their records in the delivery log. Jobs in the list of
-- instant jobs may stay there, because searching a long list is slow. When acquire takes such a job, it finds no batch
-- and deletes the job.
function dropping.delete_all(call, collection)
  local keys = call.keys
  delivery_log.write_drops(call, collection.log)
  if #collection.bids == 0 then return end
  redis.call('UNLINK', unpack(collection.lists))
  open_batches.forget_closed(call, collection.bids)
  redis.call('ZREM', keys.batches_index(), unpack(collection.bids))
  redis.call('SREM', keys.jobs_index('main'), unpack(collection.jobs))
  redis.call('ZREM', keys.jobs_scheduled('main'), unpack(collection.jobs))
  for token, of_token in pairs(collection.by_token) do
    redis.call('ZREM', keys.batches_queued(token), unpack(of_token.bids))
    redis.call('ZREM', keys.batches_retrying(token), unpack(of_token.bids))
    local open = open_batches.bid_of(call, token)
    if collection.dropped[open] then open_batches.remove(call, token, open) end
    batches.count_out(call, token, #of_token.bids, of_token.events)
    dropping.update_lane(call, collection, token, of_token.jobs)
  end
end

return dropping
