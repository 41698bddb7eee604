#!lua flags=allow-oom
--[[
ruby_workers: look for living workers of the Ruby Routemaster. Returns how many there are, and the time (ms) since the
latest sign of life of any of them. A worker lives if it gave a sign of life within `lease_ms`.
]]
local ruby = include('maintenance/ruby')

return function(call, args)
  local workers, silent_ms = ruby.count_workers(call, args.lease_ms)
  return { workers = workers, silent_ms = workers > 0 and silent_ms or nil }
end
