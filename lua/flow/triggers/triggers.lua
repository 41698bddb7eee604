--[[
Triggers: a trigger publishes an event for its client on a schedule.

`triggers:of:{token}` has the definitions of a client's triggers by name. Each definition is a text of six lines.
`trigger:{token}:{name}` has what changes when a trigger fires. `triggers:due` has all triggers by the time at which
each fires next (ms). A trigger that is paused, or has no further time, has infinity there.

A trigger whose new topic is in another partition has the field `moving` until it has been moved to that partition. It
does not fire, but is due every second, so that a worker moves it if the call that changed it was interrupted.
]]
local agenda = include('flow/agenda')
local scopes = include('authentication/scopes')
local triggers = {}

-- A definition has six lines. This pattern matches the first five. It leaves out the sixth (`tail`), which may have 64
-- KB, because Lua matches character by character: matching 300 such lines took Redis 100 ms.
local LINES = '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n()'

function triggers.member(client, name)
  return name .. ' ' .. client
end

-- Splits a member of `triggers:due`. Returns the name of the trigger and the token of its client.
function triggers.parts(member)
  return member:match('^(%S+) (.+)$')
end

-- Parses the definition of a trigger. Returns nil if it is unreadable. `revision` is different in each new definition.
-- `timing` is the schedule as JSON. The JSON text of an event is made by joining `{"id":"`, the event's id, `head`, the
-- time, and `tail`.
function triggers.read(definition)
  local revision, topic, catch_up, timing, head, from = definition:match(LINES)
  if not revision or definition:find('\n', from, true) then return nil end
  local tail = definition:sub(from)
  return { revision = revision, topic = topic, catch_up = catch_up, timing = timing, head = head, tail = tail }
end

function triggers.revision_of(definition)
  return definition:match('^[^\n]*')
end

function triggers.topic_of(definition)
  return definition:match('^[^\n]*\n([^\n]*)')
end

-- Enters a trigger in `triggers:due` at `due_ms`. A trigger without `due_ms` is paused or never due again, and gets the
-- time infinity.
function triggers.enter(call, client, name, due_ms)
  local member = triggers.member(client, name)
  if due_ms then
    agenda.enter(call, call.keys.triggers_due(), member, due_ms)
  else
    redis.call('ZADD', call.keys.triggers_due(), '+inf', member)
  end
end

-- Returns why the client of a trigger may not publish to its topic, or nil. A client that the configuration names
-- (`is_fixed`) is not checked, because Redis stores nothing about it.
function triggers.judge_client(call, client, is_fixed, topic)
  if is_fixed then return nil end
  if redis.call('HEXISTS', call.keys.api_tokens(), client) == 0 then return 'client_not_found' end
  local patterns = redis.call('HGET', call.keys.api_token(client), 'publish')
  if patterns and not scopes.permit(patterns, topic) then return 'not_permitted' end
end

-- Enters a trigger in `triggers:due` with its stored time `next_at`. A trigger that is being moved to another partition
-- is entered for a second from now: if it is still here by then, a worker moves it.
function triggers.enter_as_stored(call, client, name)
  local trigger = call.keys.trigger(client, name)
  local next_at, paused, moving = unpack(redis.call('HMGET', trigger, 'next_at', 'paused', 'moving'))
  if moving then
    triggers.enter(call, client, name, call.now_ms + agenda.WAIT_MS)
  else
    triggers.enter(call, client, name, not paused and tonumber(next_at or nil) or nil)
  end
end

-- Pauses a trigger because of an error. Its `next_at` stays stored, because the API shows it for paused triggers too.
function triggers.pause(call, client, name, error)
  redis.call('HSET', call.keys.trigger(client, name), 'paused', 1, 'error', error, 'error_at', call.now_ms)
  triggers.enter_as_stored(call, client, name)
end

-- Removes a trigger. Returns true if there was one.
function triggers.remove(call, client, name)
  local keys = call.keys
  redis.call('ZREM', keys.triggers_due(), triggers.member(client, name))
  redis.call('UNLINK', keys.trigger(client, name))
  return redis.call('HDEL', keys.triggers_of(client), name) == 1
end

function triggers.remove_all(call, client)
  for _, name in ipairs(redis.call('HKEYS', call.keys.triggers_of(client))) do triggers.remove(call, client, name) end
end

return triggers
