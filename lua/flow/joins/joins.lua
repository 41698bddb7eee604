--[[
Joins: the Redis keys and entries that a join has in addition to those of every subscriber.

The set `joins` has the tokens of all joins, and `joins:of:{client}` the names of one client's joins. The hash
`joins:into` has, for each topic that a join publishes to, the token of that join. A topic takes events from one join
only. So joins never publish more than they are given, and it is easy to see which joins lead to a topic.
]]
local join_tokens = include('flow/joins/join_tokens')
local joins = {}

function joins.of(call, client)
  local tokens = {}
  for i, name in ipairs(redis.call('SMEMBERS', call.keys.joins_of(client))) do
    tokens[i] = join_tokens.make(name, client)
  end
  return tokens
end

-- Returns the topics to which a join publishes.
function joins.outlets(call, token)
  local topics = {}
  for topic in (redis.call('HGET', call.keys.subscriber(token), 'into') or ''):gmatch('%S+') do
    topics[#topics + 1] = topic
  end
  return topics
end

-- Makes this join the only one that publishes to a topic. If a join of another client published to the topic until now,
-- that join loses it. It gets the topic back only by put_join, which checks that joins form no loop.
function joins.open_outlet(call, token, topic)
  local into, left = call.keys.joins_into(), {}
  local before = redis.call('HGET', into, topic) or token
  local outlets = joins.outlets(call, before)
  for _, outlet in ipairs(outlets) do
    if outlet ~= topic then left[#left + 1] = outlet end
  end
  if before ~= token and #left < #outlets then
    redis.call('HSET', call.keys.subscriber(before), 'into', table.concat(left, ' '))
  end
  redis.call('HSET', into, topic, token)
end

-- Removes the topics of a join from `joins:into`, which maps each topic to the join that publishes to it. A topic to
-- which another join publishes by now stays there.
function joins.close_outlets(call, token)
  local into = call.keys.joins_into()
  for _, topic in ipairs(joins.outlets(call, token)) do
    if redis.call('HGET', into, topic) == token then redis.call('HDEL', into, topic) end
  end
end

-- Deletes what only joins have, such as the open join keys. A join is also a subscriber: the caller deletes what every
-- subscriber has, such as the hash `subscriber:{token}`.
function joins.forget(call, token)
  local keys, name, client = call.keys, join_tokens.read(token)
  joins.close_outlets(call, token)
  redis.call('SREM', keys.joins(), token)
  redis.call('SREM', keys.joins_of(client), name)
  redis.call('ZREM', keys.joins_expiring(), token)
  redis.call('UNLINK', keys.open_keys(token), keys.open_keys_since(token))
end

return joins
