--[[
Many: sends Redis many values with one command, because each `redis.call` takes longer than the work that Redis does for
one value.
]]
local many = {}

-- Maximum values per Redis command. Lua's `unpack` fails at 8,000. The number is even, so that a field and its value
-- are never separated.
many.MAX_VALUES = 4000

-- A look-up in a hash of 500 short values takes 3 µs if Redis stores the hash as a list, and 0.1 µs if it stores it as
-- a table. A value of more than 64 bytes, such as this one, makes Redis change the list into a table. The table remains
-- when the value is removed, until the hash is empty or Redis restarts.
many.LONG_VALUE = ('-'):rep(65)

-- Runs a Redis command on the key `name`. If there are more than MAX_VALUES values, runs the command several times.
-- Returns the last reply, or nothing if there are no values.
function many.command(command, name, values)
  local reply
  for from = 1, #values, many.MAX_VALUES do
    reply = redis.call(command, name, unpack(values, from, math.min(from + many.MAX_VALUES - 1, #values)))
  end
  return reply
end

-- Returns the values of a hash's fields, in the order of `fields`; false for a field that does not exist.
function many.get_fields(hash, fields)
  if #fields <= many.MAX_VALUES then return redis.call('HMGET', hash, unpack(fields)) end
  local values = {}
  for from = 1, #fields, many.MAX_VALUES do
    local to = math.min(from + many.MAX_VALUES - 1, #fields)
    for i, value in ipairs(redis.call('HMGET', hash, unpack(fields, from, to))) do values[from + i - 1] = value end
  end
  return values
end

-- Sets fields of a hash. `pairs_of` is a list of field, value, …; an empty list changes nothing.
function many.set_fields(hash, pairs_of)
  if #pairs_of == 0 then return end
  local encoding = redis.call('OBJECT', 'ENCODING', hash)
  -- A long value makes Redis store the hash as a table, which is quick to search (see LONG_VALUE). The value is removed
  -- again below. A new hash with a single field does not need to be a table.
  local spread = encoding ~= 'hashtable' and (encoding or #pairs_of > 2)
  if spread then redis.call('HSET', hash, '', many.LONG_VALUE) end
  many.command('HSET', hash, pairs_of)
  if spread then redis.call('HDEL', hash, '') end
end

-- Adds counts[i] to the field tokens[i] of a gauge, a hash with a number for each subscriber. If `counts` is shorter,
-- the fields of the remaining tokens do not change.
function many.add_to_gauge(gauge, tokens, counts)
  if #counts == 1 then redis.call('HINCRBY', gauge, tokens[1], counts[1]) end
  if #counts <= 1 then return end
  local before, after = many.get_fields(gauge, tokens), {}
  for i = 1, #counts do
    after[2 * i - 1], after[2 * i] = tokens[i], string.format('%d', (before[i] or 0) + counts[i])
  end
  many.set_fields(gauge, after)
end

return many
