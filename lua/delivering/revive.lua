#!lua
--[[
revive: turn dead letters back into ready batches. Their attempts and their age begin again at 0.

Only dead letters that belong to `client` are revived; without `client` (root asks) any. A dead letter
stays if its subscriber has left. Each batch goes to the end of its subscriber's queue, in the order
given, and its job is instant. But the job of a suspect (a batch that two workers held when they died) waits for a
quarantine, the process that delivers suspects one at a time. The history of its attempts is kept.

Returns an outcome for each UID. It is `dead_letter_not_found` also for the dead letter of another client;
an entry of the client's index that names such a dead letter, or none, is removed.

Redis refuses this script while memory is exhausted (no `allow-oom`), although the script needs almost no
memory. Autodrop deletes dead letters first. If they were revived, it would delete other batches instead.
]]
local attempts = include('attempts')
local batches = include('batches')
local dead_letters = include('dead_letters')
local jobs = include('jobs')

local function revive(call, bid, token, ordered)
  local keys, letter = call.keys, call.keys.dead_letter(bid)
  local events = redis.call('LLEN', letter) - batches.HEADER
  local job = jobs.delivery_of(bid)
  redis.call('LSET', letter, 1, call.now_ms)
  redis.call('LSET', letter, 2, 0)
  redis.call('RENAME', letter, keys.batch(bid))
  dead_letters.unlist(call, bid, token, events)
  batches.enlist(call, bid, token, ordered, events)
  redis.call('SADD', keys.jobs_index('main'), job)
  if attempts.is_suspect(call, bid) then
    jobs.make_suspect(call, job)
  else
    jobs.make_instant(call, 'main', job)
  end
  return { outcome = 'ok', token = token, events = events }
end

return function(call, args)
  local client, outcomes = args.client, {}
  for i, bid in ipairs(args.bids) do
    local token = redis.call('LINDEX', call.keys.dead_letter(bid), 0)
    if not token or client and client ~= token then
      dead_letters.forget_entry(call, bid, client)
      outcomes[i] = { outcome = 'dead_letter_not_found' }
    else
      local callback, ordered = unpack(redis.call('HMGET', call.keys.subscriber(token), 'callback', 'ordered'))
      outcomes[i] = callback and revive(call, bid, token, ordered) or { outcome = 'subscriber_not_found' }
    end
  end
  return outcomes
end
