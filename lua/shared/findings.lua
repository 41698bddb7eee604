--[[
Findings: what a sweep mended.
]]
local findings = {}

function findings.add(list, kind, name)
  list[#list + 1] = { kind = kind, name = name }
end

return findings
