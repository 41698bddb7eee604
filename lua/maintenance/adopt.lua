#!lua flags=allow-oom
--[[
adopt: note the layout of this Redis, and forget the aux jobs of the Ruby Routemaster.

Once, by whoever is first: from then on aux jobs are ours, and another process that boots at the same time must not forget them.

KEYS
  schema                     string  names the partition
TOUCHES
  schema                     string
  jobs:index:{q}             set
  jobs:scheduled:{q}         zset
  jobs:instant:{q}           list
  jobs:pending:{q}:{worker}  list
  jobs:pending:index:{q}     set
ARGV
  layout                     the version of our layout
RETURNS
  1 if it was this call; 0: somebody was faster
]]
local q = 'aux'
if not redis.call('SET', key.schema(), ARGV[1], 'NX') then return 0 end
for _, worker in ipairs(redis.call('SMEMBERS', key.jobs_pending_index(q))) do
  redis.call('DEL', key.jobs_pending(q, worker))
end
redis.call('DEL', key.jobs_index(q), key.jobs_scheduled(q), key.jobs_instant(q), key.jobs_pending_index(q))
return 1
