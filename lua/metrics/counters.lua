--[[
Counters: counts of a removed topic or subscriber are added to totals, which remain.

A *series* names one count: its `field` in the hash `counters`, the field of the `total`, and the `topic` or
`subscriber` that it counts for. It has neither if it counts for the whole bus.
]]
local counters = {}

-- Returns true if the topic or subscriber of a series no longer exists.
function counters.has_ended(call, series)
  local keys = call.keys
  if series.topic then return redis.call('SISMEMBER', keys.topics(), series.topic) == 0 end
  if series.subscriber then return redis.call('SISMEMBER', keys.subscribers(), series.subscriber) == 0 end
  return false
end

-- Returns the name of the history of a topic or subscriber, such as `topic:widgets`. Returns nothing for the whole bus.
function counters.subject(series)
  if series.topic then return table.concat({ 'topic', series.topic }, ':') end
  return series.subscriber and table.concat({ 'subscriber', series.subscriber }, ':')
end

-- Adds the counts of removed topics and subscribers to the totals, and deletes these counts and their histories. The
-- hash `counters_reported`, which has the counts that the metric service already got, is changed in the same way.
-- Otherwise the service would get these counts a second time.
function counters.fold(call, all_series)
  for _, series in ipairs(all_series) do
    for _, hash in ipairs({ call.keys.counters(), call.keys.counters_reported() }) do
      local count = redis.call('HGET', hash, series.field)
      if count then
        redis.call('HDEL', hash, series.field)
        -- If another program has stored a count or a total that is no number, HINCRBY fails. `pcall` ignores this: the
        -- count is lost, and all others are still added.
        redis.pcall('HINCRBY', hash, series.total, count)
      end
    end
    local subject = counters.subject(series)
    if subject then redis.call('DEL', call.keys.history_fine(subject), call.keys.history_coarse(subject)) end
  end
end

return counters
