#!lua flags=allow-oom
--[[
sweep_triggers: check triggers, and their entries in `triggers:due`. Returns the findings.

A trigger is a definition in `triggers:of:{token}` and a hash `trigger:{token}:{name}`. If only one of the two exists, a
creation or a deletion was interrupted, and the one that exists is removed. An entry without a trigger is removed too.
An unreadable trigger is left alone, without an entry, until its client replaces or deletes it. `names` are members of
`triggers:due`, each with the trigger's name and its client's token.
]]
local agenda = include('flow/agenda')
local calls = include('store/calls')
local findings = include('maintenance/findings')
local triggers = include('flow/triggers/triggers')

-- Returns the score (the due time in ms) that a trigger must have in `triggers:due`. If the trigger is damaged or does
-- not exist, returns nil and the kind of finding to report.
local function judge(call, client, name)
  local keys = call.keys
  local definition = calls.read_or_nil('HGET', keys.triggers_of(client), name)
  local state = calls.read_or_nil('HMGET', keys.trigger(client, name), 'fired', 'next_at', 'paused', 'moving')
  if definition == nil or not state then return nil, 'trigger_unreadable' end
  if not definition and redis.call('EXISTS', keys.trigger(client, name)) == 0 then
    return nil, 'entry_without_trigger'
  end
  if not definition or not state[1] then return nil, 'trigger_incomplete' end
  if not triggers.read(definition) then return nil, 'trigger_unreadable' end
  -- The trigger is being moved to another partition. It is always due, so that a worker takes it and moves it.
  if state[4] then return 0 end
  return not state[3] and tonumber(state[2] or nil) or math.huge
end

local function check(call, found, member)
  local due = call.keys.triggers_due()
  local name, client = triggers.parts(member)
  local wanted, fault = nil, 'entry_without_trigger'
  if name then wanted, fault = judge(call, client, name) end
  local score = tonumber(redis.call('ZSCORE', due, member) or nil)
  if wanted and not agenda.is_placed(call, score, wanted) then
    triggers.enter_as_stored(call, client, name)
    fault = 'trigger_misplaced'
  elseif fault == 'trigger_incomplete' then
    triggers.remove(call, client, name)
  elseif fault and score then
    redis.call('ZREM', due, member)
  elseif fault == 'entry_without_trigger' then
    -- The trigger was deleted after the sweep had read its name, so nothing is wrong.
    fault = nil
  end
  if fault then findings.add(found, fault, member) end
end

return function(call, args)
  local found = {}
  for _, member in ipairs(args.names) do check(call, found, member) end
  return found
end
