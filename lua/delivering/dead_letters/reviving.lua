--[[
Reviving: turns a dead letter back into a ready batch.
]]
local attempts = include('delivering/attempts')
local batches = include('delivering/batches')
local dead_letters = include('delivering/dead_letters/dead_letters')
local jobs = include('delivering/jobs')
local open_batches = include('delivering/open_batches')
local reviving = {}

local function revive(call, bid, token, ordered)
  local keys, letter = call.keys, call.keys.dead_letter(bid)
  local events = redis.call('LLEN', letter) - batches.HEADER
  local job = jobs.delivery_of(bid)
  redis.call('LSET', letter, 1, call.now_ms)
  redis.call('LSET', letter, 2, 0)
  redis.call('RENAME', letter, keys.batch(bid))
  open_batches.forget_closed(call, { bid })
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

-- Turns a dead letter back into a batch. If `wanted` is given, the dead letter must belong to this subscriber. Returns
-- a table with the `outcome`. If it is 'ok', the table also has the subscriber's `token`, and the number of `events`.
function reviving.revive(call, bid, wanted)
  local token = redis.call('LINDEX', call.keys.dead_letter(bid), 0)
  if not token or wanted and wanted ~= token then
    dead_letters.forget_entry(call, bid, wanted)
    return { outcome = 'dead_letter_not_found' }
  end
  local callback, ordered = unpack(redis.call('HMGET', call.keys.subscriber(token), 'callback', 'ordered'))
  return callback and revive(call, bid, token, ordered) or { outcome = 'subscriber_not_found' }
end

return reviving
