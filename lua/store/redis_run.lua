--[[
Redis run: names the process of Redis that runs the scripts. A Redis that was restarted has a new `run_id`. A replica
that was promoted, or a Redis that replaces another, has a `run_id` of its own. Each may lack the last writes of the
process before it.
]]
local redis_run = {}

-- The `run_id` of this Redis, or nil until it is read. It is kept, because reading it takes 6 µs. Only a restart of
-- Redis changes the `run_id`, and a restart also clears this variable.
local id

-- Returns the `run_id` of this Redis, or nil if INFO does not say it.
function redis_run.id()
  id = id or redis.call('INFO', 'server'):match('\nrun_id:(%w+)')
  return id
end

return redis_run
