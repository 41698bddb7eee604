#!lua flags=allow-oom
--[[
sweep_batches: repair batches, dead letters and the index entries that name them. Returns the findings.

Three rules hold. Every batch is in the batch indexes. Every dead letter has a reason and a time, and is in
the dead letter indexes. Every index entry names a batch or dead letter that exists. The script checks and repairs in
one script call, so correct data never changes, however busy the bus is. A name whose batch no longer exists is not an
error. sweep_jobs repairs jobs, and sweep_gauges repairs gauges.

`where` is the kind of key in which the caller found the names, as the table LAYOUT of src/store calls it. `token` is
the subscriber to which that key belongs, if it belongs to one. The names are UIDs of batches, but names from
batches_open and batches_room are tokens of subscribers.

`batches:retrying:{token}` is corrected without a finding, because an earlier release did not know it.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local dead_letters = include('delivering/dead_letters/dead_letters')
local dropping = include('maintenance/dropping')
local findings = include('maintenance/findings')
local jobs = include('delivering/jobs')
local open_batches = include('delivering/open_batches')
local ruby = include('maintenance/ruby')

local function exists(name)
  return redis.call('EXISTS', name) == 1
end

-- Returns the token of a batch's subscriber, the first item of the batch's list. Returns false if there is no list, and
-- nil if the key has another type.
local function owner_of(list)
  return calls.read_or_nil('LINDEX', list, 0)
end

-- Returns true if a batch has lost its header, so that its list begins with an event. A script that shortens a batch
-- removes the header with the first events, and then adds it again. If Redis is killed in between, the header is lost.
local function has_no_header(batch)
  local first = owner_of(batch)
  return first and first:sub(1, 1) == '{'
end

-- Finds the subscriber of a batch that has no header to name it: the one whose index has the batch. Returns its token,
-- or nothing.
local function find_owner(call, bid)
  for _, token in ipairs(redis.call('SMEMBERS', call.keys.subscribers())) do
    if redis.call('ZSCORE', call.keys.batches_queued(token), bid) then return token end
  end
end

-- Puts a new header (the first items of the list) at the front of a batch whose header is missing or damaged. If the
-- header was missing, the batch is whole again, and stays in the queue. If the header was damaged, its remains are now
-- behind the new one, where events should be. So the batch becomes a dead letter. If the subscriber of the batch cannot
-- be found, only reports the batch.
local function repair_header(call, bid, found)
  local keys, batch = call.keys, call.keys.batch(bid)
  local is_whole = has_no_header(batch)
  local owner = is_whole and find_owner(call, bid) or owner_of(batch)
  if not owner or not exists(keys.subscriber(owner)) then
    return findings.add(found, 'batch_unreadable', bid)
  end
  local created_ms = math.floor(tonumber(redis.call('ZSCORE', keys.batches_index(), bid) or call.now_ms))
  redis.call('LPUSH', batch, 0, created_ms, owner)
  if not is_whole then dead_letters.bury(call, bid, 'failed_in_bus') end
  findings.add(found, 'batch_malformed', bid)
end

local function remove(command, index, bid, found, kind)
  if redis.call(command, index, bid) == 1 then findings.add(found, kind, bid) end
end

-- True if the batch `bid` belongs to the subscriber `owner`, and was never attempted. An attempted batch must not be
-- open, because events appended during the delivery would be deleted with the batch.
local function may_be_open(call, bid, owner)
  local batch = call.keys.batch(bid)
  return owner_of(batch) == owner and redis.call('LINDEX', batch, 2) == '0'
end

local function is_in_flight(call, bid)
  call.jobs_held = call.jobs_held or dropping.jobs_held(call)
  return call.jobs_held[jobs.delivery_of(bid)]
end

-- Each function of this table checks and repairs one kind of key or entry. A script call uses the function that its
-- argument `where` names.
local check = {}

function check.batch(call, bid, found)
  local keys = call.keys
  if not exists(keys.batch(bid)) then return end
  local owner, created_ms, attempts = batches.read_header(keys.batch(bid))
  if not owner then return repair_header(call, bid, found) end
  local entered = redis.call('ZADD', keys.batches_index(), 'NX', created_ms, bid)
    + redis.call('ZADD', keys.batches_queued(owner), 'NX', created_ms * 1000, bid)
  if entered > 0 then findings.add(found, 'batch_unindexed', bid) end
  if attempts ~= '0' and not is_in_flight(call, bid) then batches.note_retry(call, owner, bid) end
end

function check.ruby_batch(call, bid, found)
  local adopted = ruby.adopt(call, bid)
  if adopted == nil then return end
  findings.add(found, adopted and 'batch_of_ruby' or 'batch_of_ruby_unreadable', bid)
end

function check.dead_letter(call, bid, found)
  local keys = call.keys
  if not exists(keys.dead_letter(bid)) then return end
  local owner = batches.read_header(keys.dead_letter(bid))
  if not owner then return findings.add(found, 'dead_letter_unreadable', bid) end
  local about = keys.dead_letter_about(bid)
  local indexed_at = redis.call('ZSCORE', keys.dead_letters_index(), bid)
  local repaired = redis.call('HSETNX', about, 'died_at', indexed_at or call.now_ms)
    + redis.call('HSETNX', about, 'reason', 'failed_in_bus')
  local died_at = redis.call('HGET', about, 'died_at')
  repaired = repaired + redis.call('ZADD', keys.dead_letters_index(), 'NX', died_at, bid)
    + redis.call('ZADD', keys.dead_letters_of(owner), 'NX', died_at, bid)
  if repaired > 0 then findings.add(found, 'dead_letter_incomplete', bid) end
end

function check.attempts(call, bid, found)
  if exists(call.keys.batch(bid)) or exists(call.keys.dead_letter(bid)) then return end
  if redis.call('DEL', call.keys.attempts(bid)) == 1 then findings.add(found, 'attempts_without_batch', bid) end
end

function check.dead_letter_about(call, bid, found)
  if exists(call.keys.dead_letter(bid)) then return end
  local deleted = redis.call('DEL', call.keys.dead_letter_about(bid)) == 1
  if deleted then findings.add(found, 'entry_without_dead_letter', bid) end
end

function check.batches_retrying(call, bid, _, token)
  local owner, _, attempts = batches.read_header(call.keys.batch(bid))
  if owner == token and attempts ~= '0' then return end
  redis.call('ZREM', call.keys.batches_retrying(token), bid)
end

function check.batches_index(call, bid, found)
  if exists(call.keys.batch(bid)) or ruby.is_stray(call, bid) then return end
  remove('ZREM', call.keys.batches_index(), bid, found, 'entry_without_batch')
end

function check.batches_queued(call, bid, found, token)
  local batch = call.keys.batch(bid)
  -- A batch without a header keeps its entry in the index, because `repair_header` finds its subscriber by this entry.
  if owner_of(batch) == token or has_no_header(batch) then return end
  remove('ZREM', call.keys.batches_queued(token), bid, found, 'entry_without_batch')
end

-- Removes a UID from the set `batches:current:{token}` unless one of these holds:
--   - A Ruby process has stored the batch.
--   - The batch is open (`batches:open` names it), and was never attempted.
function check.batches_current(call, bid, found, token)
  if exists(call.keys.ruby_batch(bid)) then return end
  local entry = redis.call('HGET', call.keys.batches_open(), token)
  if entry and open_batches.read_entry(entry) == bid and may_be_open(call, bid, token) then return end
  remove('SREM', call.keys.batches_current(token), bid, found, 'entry_without_batch')
end

-- The hash `batches:open` says which batch takes a subscriber's new events. Closes this batch unless all of these hold:
--   - It belongs to the subscriber, and was never attempted.
--   - Its UID is in the set `batches:current:{token}`.
--   - Its entry in the hash has the subscriber's max_events and max_bytes.
function check.batches_open(call, token, found)
  local keys = call.keys
  local entry = redis.call('HGET', keys.batches_open(), token)
  if not entry then return end
  local bid, current = open_batches.read_entry(entry), keys.batches_current(token)
  local max_events, max_bytes = unpack(redis.call('HMGET', keys.subscriber(token), 'max_events', 'max_bytes'))
  local expected = open_batches.entry(bid, open_batches.max_events(max_events), max_bytes)
  -- The set `batches:current:{token}` is checked only if there was no takeover. After a takeover, this bus does not add
  -- its open batches to the set.
  local is_current = ruby.was_here(call) or redis.call('SISMEMBER', current, bid) == 1
  if is_current and entry == expected and may_be_open(call, bid, token) then return end
  local close = exists(keys.batch(bid)) and open_batches.close or open_batches.remove
  close(call, token, bid)
  findings.add(found, 'entry_without_batch', bid)
end

-- Removes a subscriber's entry in `batches:room` if the subscriber no longer exists. The finding names the batch and
-- not the subscriber's token, because findings are logged, and the token may be a credential.
function check.batches_room(call, token, found)
  local room = redis.call('HGET', call.keys.batches_room(), token)
  if not room or exists(call.keys.subscriber(token)) then return end
  redis.call('HDEL', call.keys.batches_room(), token)
  findings.add(found, 'entry_without_batch', (open_batches.read_entry(room)))
end

-- Deletes the time at which a batch was closed, if neither the batch nor its dead letter exists any more.
function check.batches_closed(call, bid, found)
  if bid == '' or exists(call.keys.batch(bid)) or exists(call.keys.dead_letter(bid)) then return end
  remove('HDEL', call.keys.batches_closed(), bid, found, 'entry_without_batch')
end

-- Removes an entry from the index of dead letters if there is no such dead letter, or if another program has written
-- its key with another type. Listings would fail at such a key.
function check.dead_letters_index(call, bid, found)
  if owner_of(call.keys.dead_letter(bid)) then return end
  remove('ZREM', call.keys.dead_letters_index(), bid, found, 'entry_without_dead_letter')
end

function check.dead_letters_of(call, bid, found, token)
  if owner_of(call.keys.dead_letter(bid)) == token then return end
  remove('ZREM', call.keys.dead_letters_of(token), bid, found, 'entry_without_dead_letter')
end

return function(call, args)
  local found = {}
  for _, name in ipairs(args.names) do check[args.where](call, name, found, args.token) end
  return found
end
