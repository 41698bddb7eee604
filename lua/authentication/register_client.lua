#!lua
--[[
register_client: register a client without a secret. If the client exists already, it gets this name and these scopes.
With `keeps_name`, an existing client keeps its name and its secret, and gets only these scopes.

`ended` has the tokens of the joins that ended because the scopes do not permit them; the caller deletes their batches
and dead letters next. `name` is the name of the client.

Nothing changes in these cases:

- `client_not_found`: `keeps_name` is given, but there is no such client.
- `has_secret`: the client has a secret, and would be registered without one. Its public token would then be its
  credential.
]]
local joins = include('flow/joins/joins')
local leaving = include('subscribing/leaving')
local scopes = include('authentication/scopes')
local topics = include('subscribing/topics')
local triggers = include('flow/triggers/triggers')

local function end_subscriptions(call, token, patterns)
  local forbidden = {}
  for _, topic in ipairs(redis.call('SMEMBERS', call.keys.subscriber_topics(token))) do
    if not scopes.permit(patterns, topic) then forbidden[#forbidden + 1] = topic end
  end
  topics.unsubscribe_from(call, token, forbidden)
end

local function pause_triggers(call, token, patterns)
  for _, name in ipairs(redis.call('HKEYS', call.keys.triggers_of(token))) do
    local definition = redis.call('HGET', call.keys.triggers_of(token), name)
    if not scopes.permit(patterns, triggers.topic_of(definition)) then
      triggers.pause(call, token, name, 'forbidden')
    end
  end
end

local function permits_all(patterns, names)
  for _, topic in ipairs(patterns and names or {}) do
    if not scopes.permit(patterns, topic) then return false end
  end
  return true
end

-- Ends the client's joins that have a forbidden topic: a source that `patterns_of.subscribe` does not permit, or an
-- outlet (a topic to which the join publishes) that `patterns_of.publish` does not permit. Returns the tokens of the
-- ended joins.
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

-- Stores to which topics a client may publish and subscribe. `entries` has the topic patterns for `publish` and for
-- `subscribe`; a missing entry permits all topics. If the new patterns forbid a subscription or a join of the client,
-- it ends. If they forbid a trigger, it pauses. The client keeps the topics that it owns, so that no other client can
-- take their names. Returns the tokens of the ended joins, whose batches and dead letters the caller deletes.
local function set_scopes(call, token, entries)
  local client, patterns_of = call.keys.api_token(token), {}
  redis.call('HDEL', client, 'publish', 'subscribe')
  for _, scope in ipairs(entries) do
    redis.call('HSET', client, scope.of, scope.patterns)
    patterns_of[scope.of] = scope.patterns
  end
  if patterns_of.subscribe then end_subscriptions(call, token, patterns_of.subscribe) end
  if patterns_of.publish then pause_triggers(call, token, patterns_of.publish) end
  return end_joins(call, token, patterns_of)
end

return function(call, args)
  local keys, token = call.keys, args.token
  local client = keys.api_token(token)
  local known = redis.call('HGET', keys.api_tokens(), token)
  local name = args.name
  if args.keeps_name then
    if not known then return { outcome = 'client_not_found', ended = {} } end
    name = known
  else
    local sha256, md5 = unpack(redis.call('HMGET', client, 'ha1_sha256', 'ha1_md5'))
    if known and (sha256 or md5) then return { outcome = 'has_secret', ended = {} } end
    redis.call('HSET', keys.api_tokens(), token, name)
    -- If the removal of an earlier client with this token stopped half-way, its secret may still be stored. That secret
    -- must not be valid for the new client.
    redis.call('HDEL', client, 'ha1_sha256', 'ha1_md5', 'secret_at')
    redis.call('DEL', keys.former_secret(token))
    redis.call('HSETNX', client, 'created_at', call.now_ms)
  end
  return { outcome = 'ok', name = name, ended = set_scopes(call, token, args.scopes) }
end
