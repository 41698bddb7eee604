--[[
Ruby: what the processes of a Ruby Routemaster leave in this Redis.

A batch that a Ruby process stores after the takeover, under its own kind of key, is a *stray*. Adopting the stray
makes it a batch of this bus. The gauges need no change, because Ruby processes count their events and batches.
]]
local batches = include('batches')
local jobs = include('jobs')
local leases = include('leases')
local ruby = {}

function ruby.was_here(call)
  if call.ruby_was_here == nil then call.ruby_was_here = redis.call('EXISTS', call.keys.taken_over()) == 1 end
  return call.ruby_was_here
end

-- Returns the living workers that are not of this bus, and the time (ms) since the latest sign of life of any of
-- them.
function ruby.workers(call, lease_ms)
  local keys, living, silent_ms = call.keys, {}, math.huge
  local heard = redis.call('HGETALL', keys.workers())
  for i = 1, #heard, 2 do
    local worker, ours = heard[i], false
    if not leases.ran_out(call, heard[i + 1], lease_ms) then
      for _, set in ipairs({ keys.workers_main(), keys.workers_aux() }) do
        ours = ours or redis.call('SISMEMBER', set, worker) == 1
      end
      if not ours then
        living[#living + 1] = worker
        silent_ms = math.min(silent_ms, math.max(0, call.now_ms - heard[i + 1]))
      end
    end
  end
  return living, silent_ms
end

-- Returns the UID of the new batch that is made of events in the list `batches:{bid}`. (`bid` is another batch.)
local function new_uid(call, bid)
  return redis.sha1hex(bid .. string.format('%d', call.now_us)):sub(1, 20)
end

-- Puts a header before events without one. Such events come from a Ruby web process that appended to a batch
-- of this bus, which it took for its own. Returns the UID of the new batch, its subscriber's token and its
-- time of creation. Returns nothing if the batch of this bus no longer exists, because only its header names
-- the subscriber.
local function add_header(call, bid)
  local keys = call.keys
  local token = batches.read_header(keys.batch(bid)) or batches.read_header(keys.dead_letter(bid))
  if not token then return end
  local now = string.format('%d', call.now_ms)
  redis.call('LPUSH', keys.ruby_batch(bid), 0, now, token)
  redis.call('HINCRBY', keys.gauge_batches(), token, 1)
  local uid = new_uid(call, bid)
  redis.call('RENAME', keys.ruby_batch(bid), keys.ruby_batch(uid))
  return uid, token, now
end

-- Makes a stray batch a batch of this bus that takes no more events, and gives it a job if it has none.
-- Returns true if it did so, false if it cannot adopt the stray, and nothing if there is no stray.
function ruby.adopt(call, bid)
  local keys = call.keys
  if redis.call('TYPE', keys.ruby_batch(bid)).ok ~= 'list' then return end
  local token, created_ms, attempts = batches.read_header(keys.ruby_batch(bid))
  if token then
    -- Makes the stray current no longer, so that the Ruby web process opens another batch.
    redis.call('SREM', keys.batches_current(token), bid)
  else
    bid, token, created_ms = add_header(call, bid)
  end
  if not token or redis.call('RENAMENX', keys.ruby_batch(bid), keys.batch(bid)) == 0 then return false end
  -- Resets the attempts. The Ruby Routemaster never gives up, so there may be more of them than are allowed
  -- here.
  if attempts and tonumber(attempts) > 1 then redis.call('LSET', keys.batch(bid), 2, 1) end
  redis.call('ZADD', keys.batches_index(), 'NX', created_ms, bid)
  redis.call('ZADD', keys.batches_queued(token), created_ms * 1000, bid)
  if attempts and tonumber(attempts) > 0 then batches.note_retry(call, token, bid) end
  local job = jobs.delivery_of(bid)
  if redis.call('SADD', keys.jobs_index('main'), job) == 1 then jobs.make_scheduled(call, 'main', job, call.now_ms) end
  return true
end

return ruby
