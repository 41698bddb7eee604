#!lua flags=allow-oom
--[[
report: note up to which count the counters were sent to the metric service.

A counter of which another worker has noted something meanwhile is left alone, so noting again changes nothing.
It runs when memory is exhausted: else the same counts would be sent again and again just then.

KEYS
  schema                     string  names the partition
TOUCHES
  counters:reported          hash
ARGV
  field, from, to…           the packed field, the count noted before (0: none) and the one to note; again and again
RETURNS
  how many were noted
]]
local reported = key.counters_reported()
local noted = 0
for i = 1, #ARGV, 3 do
  local field, from, to = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if (redis.call('HGET', reported, field) or '0') == from then
    redis.call('HSET', reported, field, to)
    noted = noted + 1
  end
end
return noted
