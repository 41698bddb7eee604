#!lua flags=allow-oom
--[[
sweep_batches: mend what is wrong with batches and dead letters.

A batch is in its indexes, a dead letter has its reason and is in its own; what names either without there being one is
removed. Judged here, in one step: what is sound is never touched, however busy the bus is. It is not an error if what is
named no longer exists. Jobs are sweep_jobs' to mend, gauges sweep_gauges'.

KEYS
  schema                     string  names the partition
TOUCHES
  batch:{bid}                list
  attempts:{bid}             list
  batches:open               hash
  batches:current:{token}    set
  batches:index              zset
  batches:index:{token}      zset
  batches:gauges:event       hash
  batches:gauges:batch       hash
  dead_letter:{bid}          list
  dead_letter:about:{bid}    hash
  dead_letters:index         zset
  dead_letters:index:{token} zset
  dead_letters:gauges:event  hash
  subscriber:{token}         hash    whether there is one; reads max_events
ARGV
  where                      where the names were found: the name of a key of src/store/keys.ts
  token                      the subscriber of which it is, or empty
  bid…                       for batches:open: subscribers
RETURNS
  a list of kind, bid: what was mended; again and again
]]
-- include: now
-- include: open_batch
-- include: batches
-- include: dead_letters

local where, token = ARGV[1], ARGV[2]
local FIRST_BID = 3

local findings = {}
local function found(kind, bid)
  findings[#findings + 1] = kind
  findings[#findings + 1] = bid
end

local function exists(name)
  return redis.call('EXISTS', name) == 1
end

-- The subscriber and the time of creation; nothing if the list does not begin as one should, or is none.
local function read_head(list)
  local head = redis.pcall('LRANGE', list, 0, HEAD - 1)
  local created, attempts = tostring(head[2]), tostring(head[3])
  if created:match('^%d+$') and attempts:match('^%d+$') and head[1] ~= '' then return head[1], created end
end

-- Kept whole as a dead letter, behind a head that can be read. Where it does not even tell its subscriber it is left alone.
local function set_apart(bid)
  local batch = key.batch(bid)
  local owner = redis.pcall('LINDEX', batch, 0)
  if type(owner) ~= 'string' or not exists(key.subscriber(owner)) then return found('batch_unreadable', bid) end
  local opened = math.floor(tonumber(redis.call('ZSCORE', key.batches_index(), bid) or now))
  redis.call('LPUSH', batch, 0, opened, owner)
  bury_batch(bid, 'failed_in_bus')
  found('batch_malformed', bid)
end

local check = {}

function check.batch(bid)
  if not exists(key.batch(bid)) then return end
  local owner, created = read_head(key.batch(bid))
  if not owner then return set_apart(bid) end
  local entered = redis.call('ZADD', key.batches_index(), 'NX', created, bid)
    + redis.call('ZADD', key.batches_queued(owner), 'NX', created * 1000, bid)
  if entered > 0 then found('batch_unindexed', bid) end
end

function check.dead_letter(bid)
  if not exists(key.dead_letter(bid)) then return end
  local owner = read_head(key.dead_letter(bid))
  if not owner then return found('dead_letter_unreadable', bid) end
  local about = key.dead_letter_about(bid)
  local mended = redis.call('HSETNX', about, 'died_at', redis.call('ZSCORE', key.dead_letters_index(), bid) or now)
    + redis.call('HSETNX', about, 'reason', 'failed_in_bus')
  local died_at = redis.call('HGET', about, 'died_at')
  mended = mended + redis.call('ZADD', key.dead_letters_index(), 'NX', died_at, bid)
    + redis.call('ZADD', key.dead_letters_of(owner), 'NX', died_at, bid)
  if mended > 0 then found('dead_letter_incomplete', bid) end
end

function check.attempts(bid)
  if exists(key.batch(bid)) or exists(key.dead_letter(bid)) then return end
  if redis.call('DEL', key.attempts(bid)) == 1 then found('attempts_without_batch', bid) end
end

function check.dead_letter_about(bid)
  if exists(key.dead_letter(bid)) then return end
  if redis.call('DEL', key.dead_letter_about(bid)) == 1 then found('entry_without_dead_letter', bid) end
end

-- An entry of an index, or of the current batches, that names nothing.
local function remove(command, index, bid, kind)
  if redis.call(command, index, bid) == 1 then found(kind, bid) end
end

local function owner_of(list)
  return redis.pcall('LINDEX', list, 0)
end

function check.batches_index(bid)
  if not exists(key.batch(bid)) then remove('ZREM', key.batches_index(), bid, 'entry_without_batch') end
end

function check.batches_queued(bid)
  if owner_of(key.batch(bid)) ~= token then remove('ZREM', key.batches_queued(token), bid, 'entry_without_batch') end
end

-- A batch that was attempted takes no more events: they would be deleted with it.
local function may_be_open(bid, owner)
  return owner_of(key.batch(bid)) == owner and redis.call('LINDEX', key.batch(bid), 2) == '0'
end

-- What is current is open; else it is closed.
function check.batches_current(bid)
  local entry = redis.call('HGET', key.batches_open(), token)
  if entry and read_entry(entry) == bid and may_be_open(bid, token) then return end
  remove('SREM', key.batches_current(token), bid, 'entry_without_batch')
end

-- What is open is current, and its entry says how much it may hold; else it is closed. `owner` is a subscriber.
function check.batches_open(owner)
  local entry = redis.call('HGET', key.batches_open(), owner)
  if not entry then return end
  local bid, current = read_entry(entry), key.batches_current(owner)
  local most = most_events(redis.call('HGET', key.subscriber(owner), 'max_events'))
  local sound = entry == open_entry(bid, most) and redis.call('SISMEMBER', current, bid) == 1
  if sound and may_be_open(bid, owner) then return end
  redis.call('HDEL', key.batches_open(), owner)
  redis.call('SREM', current, bid)
  found('entry_without_batch', bid)
end

function check.dead_letters_index(bid)
  if exists(key.dead_letter(bid)) then return end
  remove('ZREM', key.dead_letters_index(), bid, 'entry_without_dead_letter')
end

function check.dead_letters_of(bid)
  if owner_of(key.dead_letter(bid)) == token then return end
  remove('ZREM', key.dead_letters_of(token), bid, 'entry_without_dead_letter')
end

for i = FIRST_BID, #ARGV do
  check[where](ARGV[i])
end
return findings
