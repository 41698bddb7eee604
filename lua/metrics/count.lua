#!lua flags=allow-oom
--[[
count: add what one process has counted since its last flush.

A flush that is sent again after its reply was lost counts once.

KEYS
  schema                     string  names the partition
TOUCHES
  counters                   hash
  counters:flushed:{process} string  the number of the last flush; kept for a day
ARGV
  process                    who counted: a UID of its own
  flush                      the number of this flush, increasing
  field, count…              the packed field and what to add; again and again
RETURNS
  1, or 0 if this flush was applied before
]]
local DAY_SECONDS = 86400
local flushed = key.counters_flushed(ARGV[1])
if tonumber(redis.call('GET', flushed) or 0) >= tonumber(ARGV[2]) then return 0 end
redis.call('SET', flushed, ARGV[2], 'EX', DAY_SECONDS)
for i = 3, #ARGV, 2 do
  -- A field that somebody made no number of fails alone: an error here would lose the rest of the flush.
  redis.pcall('HINCRBY', key.counters(), ARGV[i], ARGV[i + 1])
end
return 1
