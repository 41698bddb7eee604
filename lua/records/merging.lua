--[[
Merging: merges many sources of entries into one. Each source begins with its newest entry, and so does the result.

An entry has a `place`, the time (ms, to the µs) by which it is listed, and an `id`. If entries have the same place, the
entry with the larger id comes first. A source has the `place` of its first entry, and a function `open`, which takes
the source and returns an iterator. `open` is called only when the merge has come to that place. So if there are many
sources, most of them are never opened. The first batch of a source may turn out not to be listed, for example because
it is in another state. The source then begins with an older batch.
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

-- True if one entry comes before another in a listing: if its time `place` (ms) is later or, at equal times, its id is
-- larger.
function merging.is_before(place, id, other_place, other_id)
  if place ~= other_place then return place > other_place end
  return merging.is_larger(id, other_id)
end

local function is_before(one, other)
  return merging.is_before(one.entry.place, one.entry.id, other.entry.place, other.entry.id)
end

local function rise(heap, i)
  while i > 1 do
    local parent = math.floor(i / 2)
    if not is_before(heap[i], heap[parent]) then return end
    heap[i], heap[parent] = heap[parent], heap[i]
    i = parent
  end
end

local function sink(heap)
  local i = 1
  while true do
    local first, left = i, 2 * i
    if heap[left] and is_before(heap[left], heap[first]) then first = left end
    if heap[left + 1] and is_before(heap[left + 1], heap[first]) then first = left + 1 end
    if first == i then return end
    heap[i], heap[first] = heap[first], heap[i]
    i = first
  end
end

local function push(heap, source)
  local read = source:open()
  local entry = read()
  if not entry then return end
  heap[#heap + 1] = { entry = entry, read = read }
  rise(heap, #heap)
end

local function pop(heap)
  local top = heap[1]
  if not top then return end
  local entry = top.entry
  top.entry = top.read()
  if not top.entry then
    heap[1] = heap[#heap]
    heap[#heap] = nil
  end
  if heap[1] then sink(heap) end
  return entry
end

-- Merges sources: returns an iterator over all their entries, newest first. A source is opened when the listing has
-- come to the time of its newest entry. `places` has these times, and `at_place` the sources of each time. The times
-- are sorted instead of the sources, because sorting tables takes Lua ten times as long.
function merging.merged(sources)
  local heap, places, at_place = {}, {}, {}
  for _, source in ipairs(sources) do
    local place = source.place
    if not at_place[place] then places[#places + 1] = place end
    at_place[place], source.same_place = source, at_place[place]
  end
  table.sort(places)
  return function()
    while #places > 0 and not (heap[1] and heap[1].entry.place > places[#places]) do
      local source = at_place[table.remove(places)]
      while source do
        push(heap, source)
        source = source.same_place
      end
    end
    return pop(heap)
  end
end

return merging
