--[[
Calls: what one run of a script works with.

A call is a table that is made when a script starts and passed to every function that needs it: the
partition's `keys`, the time by Redis's clock, and what the script announces at its end. No state outlives a
call.
]]
local calls = {}

-- Runs a script. Announcements go out once a kind at its end; then the first failure that `try` caught is
-- thrown.
function calls.run(script, keys, args)
  local time = redis.call('TIME')
  local call = { keys = keys, now_us = time[1] * 1000000 + time[2], wakes = {}, first_due_ms = {} }
  call.now_ms = math.floor(call.now_us / 1000)
  local result = script(call, args)
  for kind in pairs(call.wakes) do
    redis.call('PUBLISH', keys.wake(kind), '')
  end
  if call.failure then error(call.failure) end
  return result
end

-- Returns the step's result, or nothing if it fails. What fails for one subscriber (a key of the wrong type,
-- say) must not stop the others, so the first failure is kept and thrown when the script has ended.
function calls.try(call, step, ...)
  local ok, result = pcall(step, call, ...)
  if ok then return result end
  call.failure = call.failure or result
end

function calls.map(list, change)
  local changed = {}
  for i, item in ipairs(list) do changed[i] = change(item) end
  return changed
end

return calls
