#!lua flags=allow-oom
--[[
sweep_joins: repair joins and their open join keys. Returns the findings.

Four rules hold. Every join is a subscriber, and is in the set of all joins and in the set of its client's joins. Every
entry about a join, such as an entry in `joins:into`, names a join that exists. Every open join key has a record, and is
in the sorted set of open join keys with the time at which it was opened. A join is in `joins:expiring` while it has
open join keys. As in sweep_batches, the script checks and repairs in one script call. It is not an error if a name no
longer exists.

`where` is the kind of key in which the caller found the names, as the table LAYOUT of src/store calls it: the names are
tokens of joins, names of joins of the client `token` (joins_of), topics (joins_into), or join keys of the join `token`
(open_keys, open_keys_since).
]]
local findings = include('maintenance/findings')
local join_tokens = include('flow/joins/join_tokens')
local joins = include('flow/joins/joins')
local leaving = include('subscribing/leaving')
local open_keys = include('flow/joins/open_keys')

local function is_join(call, token)
  return redis.call('HGET', call.keys.subscriber(token), 'callback') == join_tokens.CALLBACK
end

-- Makes sure that a join is in `joins:expiring` while it has open join keys, and at no other time.
local function reschedule(call, token, found)
  local is_open = redis.call('EXISTS', call.keys.open_keys_since(token)) == 1
  if is_open == (redis.call('ZSCORE', call.keys.joins_expiring(), token) ~= false) then return end
  local rules = cjson.decode(redis.call('HGET', call.keys.subscriber(token), 'join'))
  open_keys.schedule(call, token, rules.within)
  findings.add(found, 'join_unscheduled', token)
end

-- Each function of this table checks and repairs one kind of key. A script call runs the one that its argument `where`
-- names.
local check = {}

function check.joins(call, token, found)
  local keys, name, client = call.keys, join_tokens.read(token)
  if redis.call('SISMEMBER', keys.joins(), token) == 0 then return end
  if not is_join(call, token) then
    leaving.leave(call, token)
    return findings.add(found, 'join_incomplete', token)
  end
  local entered = redis.call('SADD', keys.subscribers(), token) + redis.call('SADD', keys.joins_of(client), name)
  for _, topic in ipairs(joins.outlets(call, token)) do
    entered = entered + redis.call('HSETNX', keys.joins_into(), topic, token)
  end
  if entered > 0 then findings.add(found, 'join_incomplete', token) end
  reschedule(call, token, found)
end

function check.joins_of(call, name, found, client)
  local keys, token = call.keys, join_tokens.make(name, client)
  if redis.call('SISMEMBER', keys.joins_of(client), name) == 0 then return end
  if not is_join(call, token) then
    redis.call('SREM', keys.joins_of(client), name)
    findings.add(found, 'entry_without_join', token)
  elseif redis.call('SADD', keys.joins(), token) == 1 then
    findings.add(found, 'join_incomplete', token)
  end
end

function check.joins_into(call, topic, found)
  local token = redis.call('HGET', call.keys.joins_into(), topic)
  if not token then return end
  for _, outlet in ipairs(joins.outlets(call, token)) do
    if outlet == topic then return end
  end
  redis.call('HDEL', call.keys.joins_into(), topic)
  findings.add(found, 'entry_without_join', token)
end

function check.joins_expiring(call, token, found)
  if is_join(call, token) then return end
  local removed = redis.call('ZREM', call.keys.joins_expiring(), token) == 1
  if removed then findings.add(found, 'entry_without_join', token) end
end

local function since_in_record(call, token, key)
  local packed = redis.call('HGET', call.keys.open_keys(token), key)
  local ok, record = pcall(cmsgpack.unpack, packed or '')
  return packed and ok and type(record) == 'table' and tonumber(record[1]) or nil
end

function check.open_keys(call, key, found, token)
  local keys = call.keys
  if not is_join(call, token) then
    local removed = redis.call('UNLINK', keys.open_keys(token), keys.open_keys_since(token)) > 0
    if removed then findings.add(found, 'open_key_astray', token) end
    return
  end
  local since, score = since_in_record(call, token, key), redis.call('ZSCORE', keys.open_keys_since(token), key)
  if since == tonumber(score or nil) then return end
  if since then
    redis.call('ZADD', keys.open_keys_since(token), string.format('%d', since), key)
  else
    redis.call('ZREM', keys.open_keys_since(token), key)
    redis.call('HDEL', keys.open_keys(token), key)
  end
  findings.add(found, 'open_key_astray', token)
  reschedule(call, token, found)
end

check.open_keys_since = check.open_keys

return function(call, args)
  local found = {}
  for _, name in ipairs(args.names) do check[args.where](call, name, found, args.token) end
  return found
end
