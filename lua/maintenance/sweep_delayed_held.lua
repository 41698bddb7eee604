#!lua flags=allow-oom
--[[
sweep_delayed_held: correct what the delayed events of a client are said to take. Returns the findings.
]]
local delayed = include('delayed')
local findings = include('findings')

return function(call, args)
  local found = {}
  for _, token in ipairs(args.tokens) do
    if delayed.correct_held(call, token) then findings.add(found, 'delayed_miscounted', token) end
  end
  return found
end
