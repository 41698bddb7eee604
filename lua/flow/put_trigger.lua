#!lua
--[[
put_trigger: create a trigger of a client, or replace its definition.

`before` is the revision of the definition that the caller has seen, and missing if it saw none. If the stored one is
another by now, or is gone, nothing changes and the reply is `conflict`. `definition` is the new text (triggers.lua).
`next_at` is the time at which the trigger fires next (ms), and missing if it never does. With `keeps_next`, the stored
time stays, even if it has passed; a paused trigger does not fire at it. The counts of a trigger (`fired` and `missed`)
stay when it is replaced. `state`, if not empty, is what remove_trigger.lua has returned of the same trigger in another
partition: its counts and times replace those here.

The client must exist unless the configuration names it (`is_fixed`), and its scopes must permit the topic; otherwise
the reply is `client_not_found` or `not_permitted`. The topic is claimed as by publish.lua, which describes the refusals
`claimed_by_other`, `no_room` and `owns_too_many`. `too_many` means that the bus has `max_triggers` already,
`too_many_of_client` that the client has `max_client_triggers`, and `too_many_bytes` that the definitions of the client
would exceed `max_client_bytes`. A refused call changes nothing.
]]
local intake = include('publishing/intake')
local scopes = include('authentication/scopes')
local triggers = include('flow/triggers')

local function judge_client(call, args)
  local keys = call.keys
  if args.is_fixed then return nil end
  if redis.call('HEXISTS', keys.api_tokens(), args.client) == 0 then return 'client_not_found' end
  local patterns = redis.call('HGET', keys.api_token(args.client), 'publish')
  if patterns and not scopes.permit(patterns, args.topic) then return 'not_permitted' end
end

local function judge_room(call, args, before)
  if not before then
    if redis.call('ZCARD', call.keys.triggers_due()) >= args.max_triggers then return 'too_many' end
    local of_client = redis.call('HLEN', call.keys.triggers_of(args.client))
    if of_client >= args.max_client_triggers then return 'too_many_of_client' end
  end
  local more = #args.definition - #(before or '')
  if more > 0 and triggers.bytes_of(call, args.client) + more > args.max_client_bytes then return 'too_many_bytes' end
end

local function store(call, args, before)
  local keys, client, name = call.keys, args.client, args.name
  local trigger = keys.trigger(client, name)
  triggers.define(call, client, name, args.definition, before)
  if #args.state > 0 then
    redis.call('DEL', trigger)
    redis.call('HSET', trigger, unpack(args.state))
  end
  redis.call('HSETNX', trigger, 'fired', 0)
  redis.call('HSETNX', trigger, 'missed', 0)
  redis.call('HDEL', trigger, 'paused', 'error', 'error_at')
  if args.is_paused then redis.call('HSET', trigger, 'paused', 1) end
  if not args.keeps_next then
    redis.call('HDEL', trigger, 'next_at')
    if args.next_at then redis.call('HSET', trigger, 'next_at', args.next_at) end
  end
  local next_at = not args.is_paused and redis.call('HGET', trigger, 'next_at')
  triggers.enter(call, client, name, tonumber(next_at or nil))
end

return function(call, args)
  local before = redis.call('HGET', call.keys.triggers_of(args.client), args.name) or nil
  if (before and triggers.revision_of(before)) ~= args.before then return 'conflict' end
  local taken, publication = intake.begin_unlimited(), { topic = args.topic, client = args.client }
  taken.max_topics, taken.max_client_topics = args.max_topics, args.max_client_topics
  local refusal = judge_client(call, args) or judge_room(call, args, before) or intake.judge(call, taken, publication)
  if refusal then return refusal end
  intake.accept(call, taken, publication)
  store(call, args, before)
  return before and 'changed' or 'created'
end
