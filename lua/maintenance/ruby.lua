--[[
Ruby: what the processes of a Ruby Routemaster leave in this Redis.

After this bus has taken over the Redis of a Ruby Routemaster, a Ruby process may still store a batch under a key of the
Ruby layout. Such a batch is a *stray*. Adopting a stray makes it a batch of this bus. Its events are in the gauges
already, because Ruby processes count what they store.
]]
local batches = include('delivering/batches')
local jobs = include('delivering/jobs')
local leases = include('delivering/leases')
local ruby = {}

function ruby.was_here(call)
  if call.ruby_was_here == nil then call.ruby_was_here = redis.call('EXISTS', call.keys.taken_over()) == 1 end
  return call.ruby_was_here
end

-- Returns the number of living workers of a Ruby Routemaster. Also returns the time (ms) since the latest sign of life
-- of any such worker; infinite if none lives.
function ruby.count_workers(call, lease_ms)
  local keys, living, silent_ms = call.keys, 0, math.huge
  local heard = redis.call('HGETALL', keys.workers())
  for i = 1, #heard, 2 do
    local worker, heard_ms = heard[i], heard[i + 1]
    if not leases.has_expired(call, heard_ms, lease_ms) and redis.call('SISMEMBER', keys.workers_main(), worker) == 0
      and redis.call('SISMEMBER', keys.workers_aux(), worker) == 0 then
      living = living + 1
      silent_ms = math.min(silent_ms, math.max(0, call.now_ms - heard_ms))
    end
  end
  return living, silent_ms
end

-- Returns true if the batch `bid` is a stray (a Ruby process stored it after this bus had taken over its Redis) that
-- this bus has not adopted yet.
function ruby.is_stray(call, bid)
  return ruby.was_here(call) and redis.call('TYPE', call.keys.ruby_batch(bid)).ok == 'list'
end

local function new_uid(call, bid)
  return redis.sha1hex(bid .. string.format('%d', call.now_us)):sub(1, 20)
end

-- Turns a list of events without a header into a batch. A Ruby web process made the list after the takeover, when it
-- wanted to append events to the open batch `bid` of this bus. It wrote to `batches:{bid}`, the key of the Ruby layout,
-- instead of `batch:{bid}`.
--
-- Gives the list a new UID, and a header with the subscriber of `bid`, which may be a dead letter by now. Returns the
-- UID, the subscriber's token and the time of creation, or nothing if `bid` no longer exists.
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

-- Turns a batch of the Ruby Routemaster into a closed batch of this bus, with a job. The takeover of a Redis does this
-- for all batches in `batches:index`; acquire and sweeps do it for all others. Returns true if the batch is adopted,
-- false if it has no known subscriber or its UID is taken, and nothing if there is no such batch.
function ruby.adopt(call, bid)
  local keys = call.keys
  if redis.call('TYPE', keys.ruby_batch(bid)).ok ~= 'list' then return end
  local token, created_ms, attempts = batches.read_header(keys.ruby_batch(bid))
  if token then
    -- A Ruby web process that still runs appends events to the batches in the set of open batches. So this batch is
    -- removed from the set.
    redis.call('SREM', keys.batches_current(token), bid)
  else
    bid, token, created_ms = add_header(call, bid)
  end
  if not token or redis.call('RENAMENX', keys.ruby_batch(bid), keys.batch(bid)) == 0 then return false end
  -- The Ruby Routemaster retries a batch without limit, so the batch may have had more attempts than this bus allows.
  -- Its attempts count as one, so that this bus still retries it.
  if attempts and tonumber(attempts) > 1 then redis.call('LSET', keys.batch(bid), 2, 1) end
  redis.call('ZADD', keys.batches_index(), 'NX', created_ms, bid)
  redis.call('ZADD', keys.batches_queued(token), created_ms * 1000, bid)
  if attempts and tonumber(attempts) > 0 then batches.note_retry(call, token, bid) end
  local job = jobs.delivery_of(bid)
  if redis.call('SADD', keys.jobs_index('main'), job) == 1 then jobs.make_scheduled(call, 'main', job, call.now_ms) end
  return true
end

return ruby
