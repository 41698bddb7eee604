--[[
Key records: what a join has counted of an open join key.

A record is stored as MessagePack `[since, url, [topic, events, ids, added], …]`: the time (ms) at which the join key
was opened, the URL of its last event, and for each source topic how many of its events are counted, the ids of the last
of them, and when the topic was added to the join (µs; missing if the join always had it).
]]
local key_records = {}

-- Maximum number of event ids in the record of a join key. When there are more, `forget_id` removes one.
local MAX_IDS = 100

function key_records.new(call)
  return { since_ms = call.now_ms, url = '', counts = {}, ids = 0 }
end

-- Returns the record of a join key, without the counts of topics that are not in `sources` any more. If a source was
-- removed from the join and added again, its counts from before are left out too. `added_at` says when each source was
-- added.
function key_records.unpack(packed, sources, added_at)
  local all = cmsgpack.unpack(packed)
  local record = { since_ms = all[1], url = all[2], counts = {}, ids = 0 }
  for i = 3, #all do
    local topic, events, ids, added = unpack(all[i])
    if sources[topic] and added == added_at[topic] then
      record.counts[topic] = { events = events, ids = ids }
      record.ids = record.ids + #ids
    end
  end
  return record
end

function key_records.pack(record, added_at)
  local all = { record.since_ms, record.url }
  for topic, count in pairs(record.counts) do
    all[#all + 1] = { topic, count.events, count.ids, added_at[topic] }
  end
  return cmsgpack.pack(all)
end

-- Removes the oldest id of the topic with the most ids, so that a topic with few events keeps its ids.
local function forget_id(record)
  local most
  for _, count in pairs(record.counts) do
    if not most or #count.ids > #most.ids then most = count end
  end
  table.remove(most.ids, 1)
  record.ids = record.ids - 1
end

function key_records.count(record, event)
  local count = record.counts[event.topic] or { events = 0, ids = {} }
  record.counts[event.topic] = count
  count.events = count.events + 1
  count.ids[#count.ids + 1] = event.id
  record.ids, record.url = record.ids + 1, event.url
  if record.ids > MAX_IDS then forget_id(record) end
end

-- Returns true if each source topic has its required count of events.
function key_records.is_complete(record, sources)
  for _, source in ipairs(sources) do
    local count = record.counts[source.topic]
    if not count or count.events < source.count then return false end
  end
  return true
end

-- Subtracts from the record of a complete join key the events that completed it: for each source topic, the required
-- count. Returns the ids of these events. Some may be missing, because a record keeps only the last ids.
function key_records.deduct(record, sources)
  local deducted_ids = {}
  for _, source in ipairs(sources) do
    local count, kept = record.counts[source.topic], {}
    -- Number of the counted events whose ids are no longer in the record: the oldest events (see `forget_id`).
    local unknown = count.events - #count.ids
    for i, id in ipairs(count.ids) do
      local list = unknown + i <= source.count and deducted_ids or kept
      list[#list + 1] = id
    end
    record.ids = record.ids - #count.ids + #kept
    count.events, count.ids = count.events - source.count, kept
    if count.events == 0 then record.counts[source.topic] = nil end
  end
  return deducted_ids
end

-- Returns the ids of the events in the record of a join key, in the order of the source topics.
function key_records.ids(record, sources)
  local ids = {}
  for _, source in ipairs(sources) do
    local count = record.counts[source.topic]
    for _, id in ipairs(count and count.ids or {}) do ids[#ids + 1] = id end
  end
  return ids
end

return key_records
