-- Trying: what fails for one (of a key of the wrong type, say) does not stop the others. The first failure is thrown when
-- what is well has been done.
local failure
local function try(step, ...)
  local ok, result = pcall(step, ...)
  if ok then return result end
  failure = failure or result
end

local function throw_failure()
  if failure then error(failure) end
end
