#!lua
--[[
register_client: register a client without a secret. A client that exists gets this name and these scopes instead.

`scopes` has the topic patterns that limit the client, separated by spaces: one entry for `publish` and one for
`subscribe`. A missing entry means no limit. In the same step, subscriptions that the new scopes do not permit end, as
do joins with a source or a topic that they do not permit, and triggers of such topics pause. Topics that the client
owns stay its own: nobody else may take their names. But it may not delete a topic that it may no longer publish to.

`ended` has the tokens of the joins that ended; the caller deletes their batches and dead letters next. If the client
has a secret, nothing changes and the outcome is `has_secret`: without the secret, its public token would be its
credential.
]]
local joins = include('joins')
local leaving = include('leaving')
local scopes = include('scopes')
local topics = include('topics')
local triggers = include('triggers')

local function end_subscriptions(call, token, patterns)
  for _, topic in ipairs(redis.call('SMEMBERS', call.keys.subscriber_topics(token))) do
    if not scopes.permit(patterns, topic) then topics.unsubscribe(call, token, topic) end
  end
end

local function pause_triggers(call, token, patterns)
  for _, name in ipairs(redis.call('HKEYS', call.keys.triggers_of(token))) do
    local definition = redis.call('HGET', call.keys.triggers_of(token), name)
    if not scopes.permit(patterns, triggers.topic_of(definition)) then triggers.pause(call, token, name, 'forbidden') end
  end
end

local function permits_all(patterns, names)
  for _, topic in ipairs(patterns and names or {}) do
    if not scopes.permit(patterns, topic) then return false end
  end
  return true
end

-- Removes the joins of a client that its scopes no longer permit. Returns the tokens of these joins.
local function end_joins(call, client, patterns_of)
  local ended = {}
  for _, token in ipairs(joins.of(call, client)) do
    local sources = redis.call('SMEMBERS', call.keys.subscriber_topics(token))
    local may_read = permits_all(patterns_of.subscribe, sources)
    if not (may_read and permits_all(patterns_of.publish, joins.outlets(call, token))) then
      leaving.leave(call, token)
      ended[#ended + 1] = token
    end
  end
  return ended
end

return function(call, args)
  local keys, token = call.keys, args.token
  local client = keys.api_token(token)
  local known = redis.call('HEXISTS', keys.api_tokens(), token) == 1
  local sha256, md5 = unpack(redis.call('HMGET', client, 'ha1_sha256', 'ha1_md5'))
  if known and (sha256 or md5) then return { outcome = 'has_secret', ended = {} } end

  redis.call('HSET', keys.api_tokens(), token, args.name)
  -- A removal of a client that was cut off may have left its record, with the digests of its secret.
  redis.call('HDEL', client, 'ha1_sha256', 'ha1_md5', 'publish', 'subscribe')
  redis.call('DEL', keys.former_secret(token))
  redis.call('HSETNX', client, 'created_at', call.now_ms)
  local patterns_of = {}
  for _, scope in ipairs(args.scopes) do
    redis.call('HSET', client, scope.of, scope.patterns)
    patterns_of[scope.of] = scope.patterns
  end
  if patterns_of.subscribe then end_subscriptions(call, token, patterns_of.subscribe) end
  if patterns_of.publish then pause_triggers(call, token, patterns_of.publish) end
  return { outcome = 'ok', ended = end_joins(call, token, patterns_of) }
end
