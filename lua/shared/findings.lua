--[[
Findings: the inconsistencies that a sweep has found, each with its kind and name.
]]
local findings = {}

function findings.add(list, kind, name)
  list[#list + 1] = { kind = kind, name = name }
end

return findings
