#!lua flags=allow-oom
--[[
sample: append the figures of subjects to their histories.

A subject is the bus, a topic or a subscriber. Each has two histories: a fine one, with at most one entry for each
`fine_ms`, and a coarse one, with at most one for each `coarse_ms`. Time is divided into steps of `fine_ms` or
`coarse_ms`. An entry is MessagePack `[slot, figure, …]`; the slot is the number of the step since the Unix epoch. A
topic or subscriber gets an entry only if its figures have changed since its last entry, so a subject at rest takes no
memory. The bus gets an entry in each step in which a sample is taken. From these entries a reader knows in which steps
samples were taken.

A history that does not exist yet begins with `before`, the figures of its subject at the last sample, which was taken
at `before_ms`. Readers show how much the figures grow from one entry to the next. Without `before`, the first events of
a new topic or subscriber would be missing there. `before` is empty if it is not known.

`standings`, if given, has the present figures and rates of all subscribers. It replaces those of the last sample, and
expires like a history.

A subject that no longer exists gets no entry, so that a late sample does not bring back what was deleted. A subject
whose history was written by another program gets none either.
]]
local calls = include('store/calls')
local counters = include('metrics/counters')

-- Time after which Redis deletes the history of a topic or subscriber that gets no more entries. If the topic or
-- subscriber is removed, its history is deleted immediately.
local EXPIRY_MS = 2 * 86400 * 1000

local function same(entry, figures)
  for i, figure in ipairs(figures) do
    if entry[i + 1] ~= figure then return false end
  end
  return #entry == #figures + 1
end

-- Creates a history. Its first entry has `figures`: those of the topic, the subscriber or the bus at the last sample.
-- Does nothing if the history exists, or if `figures` is empty.
local function begin(history, slot, figures)
  if #figures == 0 or redis.call('EXISTS', history) == 1 then return end
  redis.call('RPUSH', history, cmsgpack.pack({ slot, unpack(figures) }))
  redis.call('PEXPIRE', history, EXPIRY_MS)
end

local function entry_at(history, index)
  local packed = redis.call('LINDEX', history, index)
  return packed and cmsgpack.unpack(packed)
end

-- Returns the last entry of a history. If Redis's clock was set back, the last entries may be of later slots than the
-- present one. These are removed: otherwise the history would get no entry until the clock has caught up with them.
local function last_entry(history, slot)
  local last = entry_at(history, -1)
  if not last or last[1] <= slot then return last end
  local length = redis.call('LLEN', history)
  -- A binary search: all entries before `first` are of the present slot or earlier, and those from `later` on are not.
  local first, later = 0, length - 1
  while first < later do
    local middle = math.floor((first + later) / 2)
    if entry_at(history, middle)[1] > slot then later = middle else first = middle + 1 end
  end
  redis.call('RPOP', history, length - later)
  return entry_at(history, -1)
end

-- Appends figures about a topic, a subscriber or the bus to a history, which keeps its last `kept` entries. `slot` is
-- the number of the present time slot; a history gets at most one entry in a slot. With `may_skip`, figures that equal
-- those of the last entry are not appended.
local function append(history, kept, slot, figures, may_skip)
  local last = last_entry(history, slot)
  if last and (last[1] == slot or (may_skip and same(last, figures))) then return end
  redis.call('RPUSH', history, cmsgpack.pack({ slot, unpack(figures) }))
  redis.call('LTRIM', history, -kept, -1)
  redis.call('PEXPIRE', history, EXPIRY_MS)
end

local function append_sample(call, args, each, fine_slot, coarse_slot)
  local keys, part = call.keys, counters.subject(each)
  local subject = part or 'bus'
  -- `before_ms` is by the clock of the control partition's Redis, which may be ahead of the clock of this Redis.
  local before_ms = math.min(args.before_ms, call.now_ms)
  begin(keys.history_fine(subject), math.floor(before_ms / args.fine_ms), each.before)
  begin(keys.history_coarse(subject), math.floor(before_ms / args.coarse_ms), each.before)
  append(keys.history_fine(subject), args.fine_kept, fine_slot, each.figures, part)
  append(keys.history_coarse(subject), args.coarse_kept, coarse_slot, each.figures, part)
end

return function(call, args)
  local fine_slot, coarse_slot = math.floor(call.now_ms / args.fine_ms), math.floor(call.now_ms / args.coarse_ms)
  if args.standings then redis.call('SET', call.keys.standings(), args.standings, 'PX', EXPIRY_MS) end
  for _, each in ipairs(args.samples) do
    if not counters.has_ended(call, each) then
      calls.skip_wrong_type(append_sample, call, args, each, fine_slot, coarse_slot)
    end
  end
  return true
end
