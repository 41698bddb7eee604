#!lua flags=allow-oom
--[[
purge: delete dead letters. Only those of who asks, whose index is rid of what names no letter of its own.

KEYS
  schema                     string  names the partition
TOUCHES
  dead_letter:{bid}          list
  dead_letter:about:{bid}    hash
  attempts:{bid}             list
  dead_letters:index         zset
  dead_letters:index:{token} zset
  dead_letters:gauges:event  hash
ARGV
  client                     who asks: the token of their subscriber; empty: root
  bid…                       the letters
RETURNS
  how many were deleted
]]
-- include: batches
-- include: dead_letters

local client = ARGV[1]
local FIRST_LETTER = 2

local purged = 0
for i = FIRST_LETTER, #ARGV do
  local bid = ARGV[i]
  local token = redis.call('LINDEX', key.dead_letter(bid), 0)
  if token ~= client then forget_entry(bid, client) end
  if (client == '' or not token or token == client) and delete_dead_letter(bid) then purged = purged + 1 end
end
return purged
