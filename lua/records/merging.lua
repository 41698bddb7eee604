--[[
Merging: merges many sources of entries into one. Each source gives its newest entry first, and so does the merge.

An entry has a time, `at_ms` (ms, to the µs), and an `id`. If entries have the same time, the entry with the larger id
comes first. A source is a table with these fields:

  at_ms  a time: no entry that is still to come from this source is newer
  read   a function that takes the source and the merge, and returns the next entry; nil if none is left. It is called
         when the merge has come to `at_ms`. So if there are many sources, most of them are never read
  entry  the entry that `read` has returned last; nil before the first call

`read` may add further sources to the merge. It may also return an entry without an id, which is not listed: the source
has then come to the time of this entry.
]]
local merging = {}

-- True if `id` is larger than `other` byte by byte, as Redis sorts. Lua's own comparison depends on the locale of
-- Redis.
function merging.is_larger(id, other)
  for i = 1, #id do
    local byte, its = id:byte(i), other:byte(i)
    if byte ~= its then return byte > (its or -1) end
  end
  return false
end

-- True if one entry comes before another in a listing: if it is newer or, at equal times, its id is larger.
function merging.is_before(at_ms, id, other_at_ms, other_id)
  if at_ms ~= other_at_ms then return at_ms > other_at_ms end
  return merging.is_larger(id, other_id)
end

-- Returns true if the merge reads the source `one` before `other`: the one with the newer time first. At equal times,
-- a source that is not read yet, or whose entry has no id, goes first: its next entry may have this time too.
local function is_before(one, other)
  if one.at_ms ~= other.at_ms then return one.at_ms > other.at_ms end
  local id, other_id = one.entry and one.entry.id, other.entry and other.entry.id
  if not id or not other_id then return not id end
  return merging.is_larger(id, other_id)
end

local function pop(heap)
  local i, size, first = 1, #heap - 1, heap[1]
  local last = heap[size + 1]
  heap[size + 1] = nil
  if size == 0 then return first end
  while 2 * i <= size do
    local child = 2 * i
    if child < size and is_before(heap[child + 1], heap[child]) then child = child + 1 end
    if not is_before(heap[child], last) then break end
    heap[i], i = heap[child], child
  end
  heap[i] = last
  return first
end

-- Returns a merge without sources. It is a binary heap: the source with the newest time is the first.
function merging.begin()
  return {}
end

-- Adds a source (a table as the head of this file describes) to a merge. Does nothing if `source` is nil.
function merging.add(merge, source)
  if not source then return end
  local i = #merge + 1
  while i > 1 do
    local parent = math.floor(i / 2)
    if not is_before(source, merge[parent]) then break end
    merge[i], i = merge[parent], parent
  end
  merge[i] = source
end

-- Returns the next entry of all sources; nil if none is left.
function merging.next(merge)
  while merge[1] do
    local source = pop(merge)
    local entry = source.entry
    source.entry = source:read(merge)
    source.at_ms = source.entry and source.entry.at_ms or -math.huge
    if source.entry then merging.add(merge, source) end
    if entry and entry.id then return entry end
  end
end

return merging
