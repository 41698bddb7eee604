#!lua flags=allow-oom
--[[
sweep_gauges: correct the gauges of one subscriber that disagree with what it has queued, or with its dead letters.

Few are counted in one call. Many are counted in several, by slices, each from one score to another: a slice that has as many
members as when it was counted has the same ones, as those that come are entered at the end; and a batch that is not current
takes no more events. So what the calls before counted holds, but for slices that have changed, which are counted
again; the call that has counted all compares, in the same step.

KEYS
  schema                     string  names the partition
TOUCHES
  batch:{bid}                list
  batches:current:{token}    set
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  dead_letter:{bid}          list
  dead_letters:index:{token} zset
  dead_letters:gauges:event  hash
ARGV
  what                       batches or dead_letters
  token                      the subscriber
  to, members, events…       the slices counted so far: the score at which each ends; again and again
RETURNS
  finished                   1, or 0 if there is more to count
  list                       finished: kind, subscriber, again and again: what was mended. Else the slices for the next call
]]
-- include: batches

local what, token = ARGV[1], ARGV[2]
local FIRST_SLICE = 3
-- How many lists one call measures: bounds the time that it blocks Redis.
local MOST = 2000
local SLICE = 200
-- As the members of a slice that is never taken to be unchanged.
local UNSETTLED = -1

local letters = what == 'dead_letters'
local index = letters and key.dead_letters_of(token) or key.batches_queued(token)
local list_of = letters and key.dead_letter or key.batch
local current = {}
for _, bid in ipairs(letters and {} or redis.call('SMEMBERS', key.batches_current(token))) do
  current[bid] = true
end

-- What is no list holds nothing.
local function events_in(bid)
  local length = redis.pcall('LLEN', list_of(bid))
  return type(length) == 'number' and math.max(0, length - HEAD) or 0
end

local read = 0
local function count_slice(from, to)
  local members, events = redis.call('ZRANGE', index, from, to, 'BYSCORE'), 0
  local settled = true
  for _, bid in ipairs(members) do
    events = events + events_in(bid)
    settled = settled and not current[bid]
  end
  read = read + #members
  return settled and #members or UNSETTLED, events
end

local slices, from, events, finished = {}, '(-inf', 0, true
local function add_slice(to, members, counted)
  for _, each in ipairs({ to, members, counted }) do
    slices[#slices + 1] = each
  end
  from, events = '(' .. to, events + counted
end

for i = FIRST_SLICE, #ARGV, 3 do
  local to, members, counted = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  if redis.call('ZCOUNT', index, from, to) ~= members then
    if read < MOST then
      members, counted = count_slice(from, to)
    else
      finished = false
    end
  end
  add_slice(to, members, counted)
end
while read < MOST do
  local to = redis.call('ZRANGE', index, from, '+inf', 'BYSCORE', 'LIMIT', SLICE - 1, 1, 'WITHSCORES')[2]
  if not to then break end
  add_slice(to, count_slice(from, to))
end
if read >= MOST then finished = false end
if not finished then return { 0, slices } end
local _, last = count_slice(from, '+inf')
events = events + last

local findings = {}
local function correct(gauge, kind, counted)
  local wanted = counted > 0 and string.format('%d', counted)
  if redis.call('HGET', gauge, token) == wanted then return end
  if wanted then
    redis.call('HSET', gauge, token, wanted)
  else
    redis.call('HDEL', gauge, token)
  end
  findings[#findings + 1] = kind
  findings[#findings + 1] = token
end

if letters then
  correct(key.dead_letters_events(), 'dead_letters_miscounted', events)
else
  correct(key.gauge_events(), 'events_miscounted', events)
  correct(key.gauge_batches(), 'batches_miscounted', redis.call('ZCARD', index))
end
return { 1, findings }
