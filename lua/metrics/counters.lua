--[[
Counters: counts of a removed topic or subscriber are added to totals, which remain.

A *series* names one such count: its `field` in the hash `counters`, the field of the `total`, and the `topic` or
`subscriber` that it counts for.
]]
local counters = {}

-- Returns true if a series is about a topic or subscriber that no longer exists. Returns false for a series about the
-- whole bus.
function counters.has_ended(call, series)
  local keys = call.keys
  if series.topic then return redis.call('SISMEMBER', keys.topics(), series.topic) == 0 end
  if series.subscriber then return redis.call('SISMEMBER', keys.subscribers(), series.subscriber) == 0 end
  return false
end

-- Returns the name of the history of the topic or subscriber that a series is about, such as `topic:widgets`. Returns
-- nothing for a series about the whole bus.
function counters.subject(series)
  if series.topic then return table.concat({ 'topic', series.topic }, ':') end
  return series.subscriber and table.concat({ 'subscriber', series.subscriber }, ':')
end

-- Adds the counts of removed topics and subscribers to the totals, and deletes these counts and the histories. Does the
-- same in `counters_reported`, which has what the metric service already got. Otherwise the totals would seem to have
-- grown, and the service would get these counts a second time. Returns how many counts were added to totals.
function counters.fold(call, all_series)
  local folded = 0
  for _, series in ipairs(all_series) do
    for _, hash in ipairs({ call.keys.counters(), call.keys.counters_reported() }) do
      local count = redis.call('HGET', hash, series.field)
      if count then
        redis.call('HDEL', hash, series.field)
        -- HINCRBY fails if a stored value is not a number. `pcall` ignores the failure, because such a value is not
        -- worth keeping.
        redis.pcall('HINCRBY', hash, series.total, count)
        folded = folded + 1
      end
    end
    local subject = counters.subject(series)
    if subject then redis.call('DEL', call.keys.history_fine(subject), call.keys.history_coarse(subject)) end
  end
  return folded
end

return counters
