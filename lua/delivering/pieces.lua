--[[
Pieces: the items of acquire's reply that have events. `given` is the table of `grants.begin`. Its list `reply_items`
has all items of the reply.
]]
local batches = include('delivering/batches')
local pieces = {}

-- A piece is an item of acquire's reply. It has one event of any length, or several events, joined with commas, of at
-- most PIECE_BYTES together. Lua's buffer has this size, and joining longer texts is slow. Without the maximum, acquire
-- took up to three times as long, and a batch of 260 MB blocked Redis for 5 s.
local PIECE_BYTES = 8192
local OPENING_BRACE = 123

local function add_piece(given, list, first, last, size)
  given.reply_items[#given.reply_items + 1] = first == last and list[first] or table.concat(list, ',', first, last)
  given.bytes = given.bytes + size
end

-- Adds the first events of a batch to the reply: at least one, and as many as `limits` (`events` and `bytes`) permit in
-- one delivery. `list` has the items of the batch's list, the header first. Returns the number of pieces (reply items)
-- that were added, and the position in `list` of the last added event.
--
-- JSON events are joined to pieces. An event in an older form (of the Ruby Routemaster, or of version 1 of our layout)
-- is a piece of its own.
function pieces.add_events(given, list, limits)
  local first, last = batches.HEADER + 1, math.min(#list, batches.HEADER + limits.events)
  local before, from, size, is_open, room = #given.reply_items, first, 0, false, limits.bytes - 1
  for i = first, last do
    local event = list[i]
    room = room - #event - 1
    if room < 0 and i > first then
      last = i - 1
      break
    end
    local is_json = event:byte() == OPENING_BRACE
    if i > from and not (is_json and is_open and size + #event <= PIECE_BYTES) then
      add_piece(given, list, from, i - 1, size)
      from, size = i, 0
    end
    is_open = is_json
    size = size + #event + 1
  end
  if from <= last then add_piece(given, list, from, last, size) end
  return #given.reply_items - before, last
end

return pieces
