--[[
Delivery states: the state of a batch that still exists. It is the first of these that fits:

  in_flight  a worker holds its job
  open       it takes further events
  paused     its subscriber is paused
  retrying   it was attempted before
  ready      otherwise

A dead letter is `dead`. A batch that has ended is in the delivery log (delivery_log.lua), as `taken` or `dropped`.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local jobs = include('delivering/jobs')
local open_batches = include('delivering/open_batches')
local delivery_states = {}

-- Creates an empty cache of what one script call reads about each subscriber: the jobs that its workers hold (`held`),
-- its open batch (`open`), and whether it is paused (`paused`).
function delivery_states.begin()
  return { held = {}, open = {}, paused = {} }
end

local function workers_by_token(call, seen)
  if seen.workers then return seen.workers end
  local lanes = redis.call('HGETALL', call.keys.lanes_held())
  seen.workers = {}
  for i = 1, #lanes, 2 do
    local workers = seen.workers[lanes[i + 1]] or {}
    seen.workers[lanes[i + 1]] = workers
    workers[#workers + 1] = lanes[i]
  end
  return seen.workers
end

local function held_of(call, seen, token)
  local held = seen.held[token]
  if held then return held end
  held = {}
  seen.held[token] = held
  for _, worker in ipairs(workers_by_token(call, seen)[token] or {}) do
    local job = calls.read_or_nil('LINDEX', call.keys.jobs_pending('main', worker), '0')
    if job then held[job] = worker end
  end
  return held
end

local function holder_of(call, seen, bid, token)
  return held_of(call, seen, token)[jobs.delivery_of(bid)]
end

-- Returns the UIDs of the batches that workers are delivering: those of the subscribers in `tokens`, or of all
-- subscribers if `tokens` is empty.
function delivery_states.in_flight(call, seen, tokens)
  local bids = {}
  local function add(token)
    for job in pairs(held_of(call, seen, token)) do bids[#bids + 1] = jobs.batch_of(job) end
  end
  for _, token in ipairs(tokens) do add(token) end
  if #tokens == 0 then
    for token in pairs(workers_by_token(call, seen)) do add(token) end
  end
  return bids
end

function delivery_states.is_paused(call, seen, token)
  if seen.paused[token] == nil then
    seen.paused[token] = calls.read_or_nil('HEXISTS', call.keys.subscriber(token), 'paused_at') == 1
  end
  return seen.paused[token]
end

local function is_open(call, seen, token, bid)
  if seen.open[token] == nil then seen.open[token] = open_batches.bid_of(call, token) or '' end
  return seen.open[token] == bid
end

local function state_of(call, seen, entry)
  local bid, token = entry.id, entry.subscriber
  if holder_of(call, seen, bid, token) then return 'in_flight' end
  if is_open(call, seen, token, bid) then return 'open' end
  if delivery_states.is_paused(call, seen, token) then return 'paused' end
  return entry.attempts == 0 and 'ready' or 'retrying'
end

local function read(list, bid)
  local token, created_ms, attempts = batches.read_header(list)
  if not token then return end
  return { id = bid, subscriber = token, created_ms = tonumber(created_ms), attempts = tonumber(attempts) }
end

-- Returns a batch with its state. Returns nothing if the batch does not exist.
function delivery_states.batch(call, seen, bid)
  local entry = read(call.keys.batch(bid), bid)
  if entry then entry.state = state_of(call, seen, entry) end
  return entry
end

-- Returns a dead letter, and why and when it died. Returns nothing if the dead letter does not exist, or did not die
-- for the given `reason`. If another program has written a key of the dead letter, returns nil and this key.
function delivery_states.dead_letter(call, bid, reason)
  local list, about = call.keys.dead_letter(bid), call.keys.dead_letter_about(bid)
  local values = calls.read_or_nil('HMGET', about, 'reason', 'died_at')
  if not values then return nil, about end
  if reason and values[1] ~= reason then return end
  local entry = read(list, bid)
  if not entry then return nil, redis.call('EXISTS', list) == 1 and list or nil end
  entry.state, entry.reason, entry.died_ms = 'dead', values[1] or nil, tonumber(values[2] or nil)
  return entry
end

-- Adds further fields to the entry of a batch or dead letter:
--   events         the number of events
--   closed_ms      when the batch was closed to further events. Missing if it is open, if its first events filled it,
--                  or if it is a retried dead letter
--   held_ms        when the present attempt began, if the batch is in flight
--   first_attempt  the first failed attempt
--   last_attempts  up to `max_shown` of the latest failed attempts
function delivery_states.describe(call, seen, entry, max_shown)
  local keys, bid = call.keys, entry.id
  local list = entry.state == 'dead' and keys.dead_letter(bid) or keys.batch(bid)
  entry.events = redis.call('LLEN', list) - batches.HEADER
  entry.closed_ms = tonumber(open_batches.closed_ms(call, bid) or nil)
  local worker = entry.state == 'in_flight' and holder_of(call, seen, bid, entry.subscriber)
  local lease = worker and redis.call('HGET', keys.leases(), worker)
  entry.held_ms = lease and math.floor(lease / 1000) or nil
  entry.first_attempt = calls.read_or_nil('LINDEX', keys.attempts(bid), 0) or nil
  entry.last_attempts = entry.first_attempt and redis.call('LRANGE', keys.attempts(bid), -max_shown, -1) or {}
  return entry
end

return delivery_states
