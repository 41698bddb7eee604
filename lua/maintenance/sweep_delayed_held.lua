#!lua flags=allow-oom
--[[
sweep_delayed_held: correct the stored sums of what the delayed events of clients take. Returns the findings.
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
