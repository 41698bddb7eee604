--[[
Open keys: the join keys of a join that are not complete. The hash `joins:keys:{join}` has their records
(key_records.lua), and the sorted set `joins:since:{join}` has the join keys by the time (ms) at which they were opened.

A state holds the records that one script call needs. The records are written once, at the end of the script call, since
a script call can count many events of one join key.
]]
local agenda = include('flow/agenda')
local key_records = include('flow/joins/key_records')
local many = include('store/many')
local open_keys = {}

-- Number of entries from which MEMORY USAGE estimates a size.
local SAMPLES = 20

-- Creates the working state of one script call for a join (`state` in this file). Some fields:
--   counts    for each source topic, how many of its events a join key needs
--   added_at  for each source topic that was added after the join was made, when it was added (µs, as text). What was
--             counted of the topic before that time is ignored
--   touched   the join keys whose record must be written
--   moved     the join keys whose entry in the sorted set `since` must be written or removed
function open_keys.begin(call, token, counts, added_at)
  local since = call.keys.open_keys_since(token)
  return {
    hash = call.keys.open_keys(token), since = since, counts = counts, added_at = added_at,
    size = redis.call('ZCARD', since), records = {}, touched = {}, moved = {},
  }
end

function open_keys.read_all(state, keys)
  if #keys == 0 then return end
  for i, packed in ipairs(many.get_fields(state.hash, keys)) do
    state.records[keys[i]] = packed and key_records.unpack(packed, state.counts, state.added_at)
  end
end

-- Returns the record of a join key; false if the join key is not open.
function open_keys.read(state, key)
  if state.records[key] == nil then open_keys.read_all(state, { key }) end
  return state.records[key]
end

-- Opens a join key, which must not be open already. Returns its record, in which no event is counted yet.
function open_keys.open(call, state, key)
  local record = key_records.new(call)
  state.records[key], state.touched[key], state.moved[key] = record, true, true
  state.size = state.size + 1
  return record
end

function open_keys.close(state, key)
  state.records[key], state.touched[key], state.moved[key] = false, true, true
  state.size = state.size - 1
end

function open_keys.count(state, key, record, event)
  key_records.count(record, event)
  state.touched[key] = true
end

-- Takes the events that completed a join key out of its record, and returns their ids. If no event is left, the join
-- key is closed. Otherwise the key stays open, and its time to expire begins anew. Example: a join needs one `order`
-- and one `payment`. If one order and two payments have come, one payment is left.
function open_keys.take_complete(call, state, key, record, sources)
  local ids = key_records.deduct(record, sources)
  state.touched[key] = true
  if next(record.counts) then
    record.since_ms, state.moved[key] = call.now_ms, true
  else
    open_keys.close(state, key)
  end
  return ids
end

-- Stores in the sorted set `since` the time at which each join key in `state.moved` was opened. Removes the join keys
-- that are closed.
local function store_order(state)
  local entered, removed = {}, {}
  for key in pairs(state.moved) do
    local record = state.records[key]
    if record then
      entered[#entered + 1], entered[#entered + 2] = string.format('%d', record.since_ms), key
    else
      removed[#removed + 1] = key
    end
  end
  state.moved = {}
  many.command('ZADD', state.since, entered)
  many.command('ZREM', state.since, removed)
end

-- Returns up to `max` open join keys, the longest open first. Leaves out those that were opened after `until_ms`.
function open_keys.oldest(state, max, until_ms)
  store_order(state)
  if until_ms then return redis.call('ZRANGEBYSCORE', state.since, '-inf', until_ms, 'LIMIT', 0, max) end
  return redis.call('ZRANGE', state.since, 0, max - 1)
end

-- Returns the approximate bytes of Redis that the open join keys take. Records that this script call has changed are
-- measured as they were before, because they are written only at the end of the call.
function open_keys.bytes(state)
  local records = redis.call('MEMORY', 'USAGE', state.hash, 'SAMPLES', SAMPLES) or 0
  return records + (redis.call('MEMORY', 'USAGE', state.since, 'SAMPLES', SAMPLES) or 0)
end

function open_keys.store(state)
  store_order(state)
  local written, removed = {}, {}
  for key in pairs(state.touched) do
    local record = state.records[key]
    if record then
      written[#written + 1], written[#written + 2] = key, key_records.pack(record, state.added_at)
    else
      removed[#removed + 1] = key
    end
  end
  many.command('HSET', state.hash, written)
  many.command('HDEL', state.hash, removed)
end

-- Enters a join in `joins:expiring` with the time at which its oldest open join key expires: `within_ms` after the key
-- was opened. If that time has passed already and `retry_ms` is given, the time is `retry_ms` from now. A join without
-- open keys is removed from `joins:expiring`.
function open_keys.schedule(call, token, within_ms, retry_ms)
  local first = redis.call('ZRANGE', call.keys.open_keys_since(token), 0, 0, 'WITHSCORES')[2]
  if not first then return redis.call('ZREM', call.keys.joins_expiring(), token) end
  local due_ms = first + within_ms
  if retry_ms and due_ms <= call.now_ms then due_ms = call.now_ms + retry_ms end
  agenda.enter(call, call.keys.joins_expiring(), token, due_ms)
end

return open_keys
