#!lua flags=allow-oom
--[[
watch_ruby: look for processes of the Ruby Routemaster that still use their Redis after this bus took it over.

`workers` is the number of living workers of the Ruby Routemaster. `adopted` is the number of batches that a Ruby web
process stored after the takeover and that acquire made batches of this bus (adopted), since the last report. If several
callers come within `every_ms`, one of them gets the report, and the others get zeros.
]]
local ruby = include('maintenance/ruby')

return function(call, args)
  local keys, nothing = call.keys, { workers = 0, adopted = 0 }
  if not ruby.was_here(call) and redis.call('EXISTS', keys.strays_adopted()) == 0 then return nothing end
  if not redis.call('SET', keys.ruby_watched(), '1', 'NX', 'PX', args.every_ms) then return nothing end
  local workers = ruby.was_here(call) and ruby.count_workers(call, args.lease_ms) or 0
  local adopted = tonumber(redis.call('GET', keys.strays_adopted())) or 0
  redis.call('DEL', keys.strays_adopted())
  return { workers = workers, adopted = adopted }
end
