#!lua
--[[
put_trigger: create a trigger of a client, or replace its definition.

`before` is the revision of the definition that the caller has seen, and missing if it saw none. If the stored
definition has another revision by now, or is gone, nothing changes and the reply is `conflict`. `definition` is the new
text (triggers.lua). `next_at` is the time at which the trigger fires next (ms). If it is missing, the stored time
stays, even if it has passed; a paused trigger does not fire at it. The counts of a trigger (`fired` and `missed`) stay
when it is replaced.

If the trigger is in another partition than its new topic, the script is called twice. In the partition of the topic,
`step` is `judge`: the topic is claimed, but nothing is stored. In the partition of the trigger, `step` is `leave`: the
definition is stored, but the trigger does not fire any more, and waits to be moved (receive_trigger.lua). In all other
calls `step` is `put`.

The client must exist unless the configuration names it (`is_fixed`), and its scopes must permit the topic; otherwise
the reply is `client_not_found` or `not_permitted`. The topic is claimed as by publish.lua, which describes the refusals
`claimed_by_other`, `no_room` and `owns_too_many`. `too_many` means that the bus has `max_triggers` already,
`too_many_of_client` that the client has `max_client_triggers`, and `too_many_bytes` that the definitions of the client
would exceed `max_client_bytes`. A refused call changes nothing.
]]
local intake = include('publishing/intake')
local triggers = include('flow/triggers/triggers')

-- Returns how many bytes the definitions of all triggers of a client have together.
local function bytes_of(call, client)
  local definitions, bytes = call.keys.triggers_of(client), 0
  for _, name in ipairs(redis.call('HKEYS', definitions)) do
    bytes = bytes + redis.call('HSTRLEN', definitions, name)
  end
  return bytes
end

-- Returns true if the definitions of a client would exceed `max` bytes after `more` bytes are added. MEMORY USAGE is
-- always larger than the sum of the lengths, and takes only 1 ms for 10,000 definitions. Adding up their lengths takes
-- 20 ms, so this is done only if MEMORY USAGE would exceed `max`.
local function exceed(call, client, more, max)
  local memory = redis.call('MEMORY', 'USAGE', call.keys.triggers_of(client), 'SAMPLES', 0) or 0
  return memory + more > max and bytes_of(call, client) + more > max
end

local function judge_room(call, args, before)
  if not before then
    if redis.call('ZCARD', call.keys.triggers_due()) >= args.max_triggers then return 'too_many' end
    local of_client = redis.call('HLEN', call.keys.triggers_of(args.client))
    if of_client >= args.max_client_triggers then return 'too_many_of_client' end
  end
  local more = #args.definition - #(before or '')
  if more > 0 and exceed(call, args.client, more, args.max_client_bytes) then return 'too_many_bytes' end
end

local function store(call, args)
  local keys, client, name = call.keys, args.client, args.name
  local trigger = keys.trigger(client, name)
  redis.call('HSET', keys.triggers_of(client), name, args.definition)
  redis.call('HSETNX', trigger, 'fired', 0)
  redis.call('HSETNX', trigger, 'missed', 0)
  redis.call('HDEL', trigger, 'paused', 'moving', 'error', 'error_at')
  if args.is_paused then redis.call('HSET', trigger, 'paused', 1) end
  if args.next_at then redis.call('HSET', trigger, 'next_at', args.next_at) end
  if args.step == 'leave' then
    redis.call('HSET', trigger, 'moving', args.is_fixed and 'fixed' or 'stored')
    redis.call('HINCRBY', trigger, 'moves', 1)
  end
  triggers.enter_as_stored(call, client, name)
end

return function(call, args)
  local before = redis.call('HGET', call.keys.triggers_of(args.client), args.name) or nil
  if (before and triggers.revision_of(before)) ~= args.before then return 'conflict' end
  if args.step == 'leave' then
    store(call, args)
    return 'changed'
  end
  local intake_state, publication = intake.begin(args), { topic = args.topic, client = args.client }
  local refusal = triggers.judge_client(call, args.client, args.is_fixed, args.topic)
    or judge_room(call, args, before) or intake.judge(call, intake_state, publication)
  if refusal then return refusal end
  intake.accept(call, intake_state, publication)
  if args.step == 'put' then store(call, args) end
  return before and 'changed' or 'created'
end
