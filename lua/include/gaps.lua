-- Gaps: what was dropped of a subscriber's queue. `gap:{token}` holds it until one batch of the subscriber is to tell of it;
-- then `gap:telling:{token}` does, until that batch (its field `teller`) is taken. So each drop is told by one batch, the same
-- at every attempt, and what is dropped meanwhile is told by the next.
--
-- Drops are lists of field, value, …: batches, events, from, to (ms), and topic:{topic} for each topic, its events.

-- How many fields are read and written in one go: Lua's unpack fails at 8,000 values.
local FIELDS = 1000

local function sum_of(field, value, before)
  if not before then return value end
  if field == 'from' then return math.min(value, before) end
  if field == 'to' then return math.max(value, before) end
  return value + before
end

local function add_drops(hash, drops)
  for first = 1, #drops, 2 * FIELDS do
    local fields = {}
    for i = first, math.min(first + 2 * FIELDS, #drops) - 1, 2 do fields[#fields + 1] = drops[i] end
    local before, after = redis.call('HMGET', hash, unpack(fields)), {}
    for i, field in ipairs(fields) do
      after[2 * i - 1] = field
      after[2 * i] = sum_of(field, tonumber(drops[first + 2 * i - 1]), tonumber(before[i]))
    end
    redis.call('HSET', hash, unpack(after))
  end
end

-- Nobody is to be told where the subscriber has left.
local function add_gap(token, drops)
  if redis.call('EXISTS', key.subscriber(token)) == 0 then return end
  add_drops(key.gap(token), drops)
  add_drops(key.dropped(token), drops)
end

-- The subscribers of whom nothing was dropped of which they are not told.
local is_told = {}

-- The drops of which this batch of the subscriber is to tell, or nothing.
local function tell_gap(token, bid)
  if is_told[token] then return end
  local gap, telling = key.gap(token), key.gap_telling(token)
  local teller = redis.call('HGET', telling, 'teller')
  if teller and teller ~= bid then
    if redis.call('EXISTS', key.batch(teller)) == 1 then return end
    -- It was dropped or buried, and never taken.
    redis.call('HDEL', telling, 'teller')
    add_drops(gap, redis.call('HGETALL', telling))
  end
  if teller ~= bid then
    if redis.call('EXISTS', gap) == 0 then
      is_told[token] = true
      return
    end
    redis.call('RENAME', gap, telling)
    redis.call('HSET', telling, 'teller', bid)
  end
  return redis.call('HGETALL', telling)
end

-- The same again, if this batch was to tell of one already.
local function gap_of_teller(token, bid)
  if redis.call('HGET', key.gap_telling(token), 'teller') == bid then return redis.call('HGETALL', key.gap_telling(token)) end
end

-- These batches were taken: if one of them told of it, the subscriber knows.
local function forget_gap(token, bids)
  local teller = redis.call('HGET', key.gap_telling(token), 'teller')
  for _, bid in ipairs(teller and bids or {}) do
    if bid == teller then redis.call('DEL', key.gap_telling(token)) end
  end
end
