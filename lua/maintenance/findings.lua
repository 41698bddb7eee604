--[[
Findings: the inconsistencies that a sweep finds. Each has a kind and the name of what is inconsistent.
]]
local findings = {}

function findings.add(list, kind, name)
  list[#list + 1] = { kind = kind, name = name }
end

return findings
