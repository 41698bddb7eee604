-- Bulk: one command for many. Each call of Redis costs more than what it does here.

-- Lua's unpack fails at 8,000 values. Even, so that pairs stay together.
local CHUNK = 4000

local function in_bulk(command, name, arguments)
  for from = 1, #arguments, CHUNK do
    redis.call(command, name, unpack(arguments, from, math.min(from + CHUNK - 1, #arguments)))
  end
end

-- The values of so many fields of a hash; false where there is none.
local function get_fields(hash, fields)
  if #fields <= CHUNK then return redis.call('HMGET', hash, unpack(fields)) end
  local values = {}
  for from = 1, #fields, CHUNK do
    local to = math.min(from + CHUNK - 1, #fields)
    for i, value in ipairs(redis.call('HMGET', hash, unpack(fields, from, to))) do values[from + i - 1] = value end
  end
  return values
end

-- Redis keeps a hash of up to 512 fields as a list, in which it looks for each from the start: 3 µs a field where there are
-- 500, and 0.1 µs in a table. One value of more than 64 bytes makes it a table, which it stays until it is empty or Redis
-- starts anew.
local LONG = '-----------------------------------------------------------------'
local function set_fields(hash, pairs_of)
  if #pairs_of == 0 then return end
  local encoding = redis.call('OBJECT', 'ENCODING', hash)
  -- A new one of a single field can wait.
  local spread = encoding ~= 'hashtable' and (encoding or #pairs_of > 2)
  if spread then redis.call('HSET', hash, '', LONG) end
  in_bulk('HSET', hash, pairs_of)
  if spread then redis.call('HDEL', hash, '') end
end

-- Adds these counts to what a gauge says of the subscribers, the first of them.
local function add_to_gauge(gauge, tokens, counts)
  if #counts == 1 then redis.call('HINCRBY', gauge, tokens[1], counts[1]) end
  if #counts <= 1 then return end
  local before, after = get_fields(gauge, tokens), {}
  -- Sums are often the same: remembered by what is added, and to what.
  local sums_of, sums, added = {}, nil, nil
  for i = 1, #counts do
    if counts[i] ~= added then
      added = counts[i]
      sums = sums_of[added] or {}
      sums_of[added] = sums
    end
    local old = before[i] or '0'
    local sum = sums[old]
    if not sum then
      sum = string.format('%d', old + added)
      sums[old] = sum
    end
    after[2 * i - 1], after[2 * i] = tokens[i], sum
  end
  set_fields(gauge, after)
end
