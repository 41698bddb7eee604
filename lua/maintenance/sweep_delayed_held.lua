#!lua flags=allow-oom
--[[
sweep_delayed_held: correct the stored number of each client's delayed events, and the stored sum of their bytes.
Returns the findings.
]]
local delayed = include('flow/delayed/delayed')
local findings = include('maintenance/findings')

return function(call, args)
  local found = {}
  for _, token in ipairs(args.tokens) do
    if delayed.correct_held(call, token) then findings.add(found, 'delayed_miscounted', token) end
  end
  return found
end
