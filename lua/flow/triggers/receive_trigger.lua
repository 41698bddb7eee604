#!lua
--[[
receive_trigger: store a trigger that comes from another partition, since its new topic is in this one. `definition` and
`state` (the fields and values of its hash) are as the other partition stores them. If this partition already has a
trigger of this name, the stored one stays as it is, and the reply is `received` too. So a repeat is harmless. There is
one exception. If the stored trigger is itself about to leave this partition, and has moved less often (`moves`) than
the arriving one, it is an old copy: it had left before, and a failover brought it back. The arriving one replaces it.

The caller read the trigger in the other partition after the time `seen_us` (µs), by the clock of this partition. The
trigger may no longer exist if it was removed here since then (remove_trigger): its client has deleted it, or it has
moved on to a third partition. Then nothing changes and the reply is `late`. The reply is also `late` if `seen_us` is
more than `max_age_ms` ago, because Redis may have forgotten a removal by now.

The client must exist unless the configuration names it (`is_fixed`); otherwise nothing changes and the reply is
`client_not_found`. If its scopes do not permit the topic any more, the trigger is paused.
]]
local triggers = include('flow/triggers/triggers')

-- Returns how often the trigger has moved to another partition. `state` has the names and values of the fields of its
-- hash, as HGETALL returns them.
local function moves_in(state)
  for i = 1, #state, 2 do
    if state[i] == 'moves' then return tonumber(state[i + 1]) end
  end
  return 0
end

-- Returns true if the trigger that arrives may be outdated:
--   - The trigger was removed in this partition after the caller had read it in the old one. Example: another process
--     had brought the trigger here, and then its client deleted it.
--   - The caller read the trigger so long ago (`max_age_ms`) that Redis may have forgotten a later removal.
local function is_late(call, args)
  local left_us = redis.call('GET', call.keys.trigger_left(args.client, args.name))
  if left_us and tonumber(left_us) >= args.seen_us then return true end
  return call.now_us - args.seen_us > args.max_age_ms * 1000
end

-- Returns true if this partition already has the trigger. An old copy that a failover brought back does not count,
-- because the arriving trigger replaces it.
local function is_here(call, args)
  local definition = redis.call('HEXISTS', call.keys.triggers_of(args.client), args.name)
  local moving, moves = unpack(redis.call('HMGET', call.keys.trigger(args.client, args.name), 'moving', 'moves'))
  return definition == 1 and (not moving or (tonumber(moves or nil) or 0) >= moves_in(args.state))
end

return function(call, args)
  local client, name, trigger = args.client, args.name, call.keys.trigger(args.client, args.name)
  if is_late(call, args) then return 'late' end
  local refusal = triggers.judge_client(call, client, args.is_fixed, args.topic)
  if refusal == 'client_not_found' then return refusal end
  if is_here(call, args) then return 'received' end
  redis.call('UNLINK', trigger)
  redis.call('HSET', call.keys.triggers_of(client), name, args.definition)
  redis.call('HSET', trigger, unpack(args.state))
  redis.call('HDEL', trigger, 'moving')
  triggers.enter_as_stored(call, client, name)
  if refusal then triggers.pause(call, client, name, 'forbidden') end
  return 'received'
end
