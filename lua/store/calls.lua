--[[
Calls: the state of one run of a script.

A call is a table that is made when a script starts and is passed to every function that needs it. It holds the
partition's `keys`, the time by Redis's clock (`now_us`, `now_ms`), and in `wakes` the announcements that wake other
processes. They are published when the script ends. `accepted_us` and `accepted_ms` are the time at which the bus
accepted the events that the call stores: now, or earlier if they come from another partition. Batches that are opened
for these events count as created at this time. No state outlives a call.
]]
local calls = {}

-- Maximum items that `part` copies by Lua's `unpack`, which fails at 8,000.
local MAX_UNPACKED = 4000

-- Depending on the version of Redis, an error is a text or a table.
local function text_of(failure)
  return tostring(type(failure) == 'table' and failure.err or failure)
end

-- Returns true if an error is WRONGTYPE: a key does not have the type that this bus gives it, because another program
-- has written the key.
local function is_wrong_type(failure)
  return text_of(failure):find('WRONGTYPE', 1, true) ~= nil
end

-- Publishes an announcement on a channel. On a cluster, PUBLISH sends it to all nodes, and SPUBLISH only to the shard
-- of the hash tag (a part in braces) in the channel's name.
local function announce(channel)
  if channel:find('^[^{]*{[^}]+}') then
    redis.call('SPUBLISH', channel, '')
  else
    redis.call('PUBLISH', channel, '')
  end
end

-- Runs a script and returns its result. Then publishes the announcements that wake workers or the scheduler, if the
-- script has given them work (`call.wakes`). Finally, throws the error that `throw_later` has kept, if there is one.
function calls.run(script, keys, args)
  local time = redis.call('TIME')
  local now_us = time[1] * 1000000 + time[2]
  local now_ms = math.floor(now_us / 1000)
  local call = {
    keys = keys, now_us = now_us, now_ms = now_ms, accepted_us = now_us, accepted_ms = now_ms,
    wakes = {}, first_due_ms = {},
  }
  local result = script(call, args)
  for kind in pairs(call.wakes) do
    announce(keys.wake(kind))
  end
  if call.failure then error(call.failure) end
  return result
end

-- Runs `step`, a part of a script. Returns its result, or nothing if it threw an error. The error is kept in
-- `call.failure` and thrown when the script ends, so that an error at one subscriber does not stop the work for other
-- subscribers. The first error is kept, unless a later one says that the ACL forbids a command.
function calls.throw_later(call, step, ...)
  local ok, result = pcall(step, call, ...)
  if ok then return result end
  if not call.failure or calls.is_forbidden(result) then call.failure = result end
end

-- Returns the text of the error that was kept (`throw_later`), or nil. The script then ends without throwing it.
function calls.take_failure(call)
  local failure = call.failure
  call.failure = nil
  return failure and text_of(failure)
end

-- Runs `step`, a part of a script. Keeps an error WRONGTYPE until the script ends (see `throw_later`). Throws any other
-- error immediately.
function calls.throw_wrong_type_later(call, step, ...)
  local ok, result = pcall(step, call, ...)
  if ok then return result end
  if not is_wrong_type(result) then error(result) end
  call.failure = call.failure or result
end

-- Returns true if an error says that the ACL forbids a command: by the code NOPERM or, in Redis 7.0, which does not
-- write this code, by its text.
function calls.is_forbidden(failure)
  local text = text_of(failure)
  return text:find('NOPERM', 1, true) ~= nil or text:find("The user executing the script can't ", 1, true) ~= nil
end

-- Runs `step`, and returns its result, or nothing if `step` failed with WRONGTYPE. Throws any other error.
function calls.skip_wrong_type(step, ...)
  local ok, result = pcall(step, ...)
  if ok then return result end
  if not is_wrong_type(result) then error(result) end
end

-- Runs a command that reads a key, and returns the reply, or nil if the command failed with WRONGTYPE. Throws any other
-- error.
function calls.read_or_nil(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not is_wrong_type(reply) then error(reply) end
  return nil
end

-- Returns the items of a list from position `first` to `last`, as a list of its own. Uses `unpack` where it can,
-- because a loop takes more than twice as long.
function calls.part(list, first, last)
  if last - first < MAX_UNPACKED then return { unpack(list, first, last) } end
  local part = {}
  for i = first, last do part[#part + 1] = list[i] end
  return part
end

function calls.map(list, change)
  local changed = {}
  for i, item in ipairs(list) do changed[i] = change(item) end
  return changed
end

return calls
