#!lua flags=allow-oom
--[[
sweep_deliveries: correct the stored number of records in each delivery log; without `names`, correct the stored total
of all logs. Returns the findings.

The script also deletes records that are older than a day, equally old entries of trails (the lists that tell which
logs were written when), and the logs of subscribers that no longer exist (a process of an earlier release leaves the
logs of a subscriber that it removes). These deletions are not reported as findings. `names` are names of logs, as
`deliveries:logs` has them.
]]
local delivery_log = include('records/delivery_log')
local findings = include('maintenance/findings')

-- Corrects the stored number of records in a delivery log. Returns the true number.
local function recount(call, ending, token, found)
  local name, records = delivery_log.name_of(ending, token), delivery_log.length(call, ending, token)
  local counted = tonumber(redis.call('ZSCORE', call.keys.deliveries_logs(), name))
  if counted ~= delivery_log.counted(records) then
    delivery_log.count(call, name, records, counted or 0)
    findings.add(found, 'records_miscounted', token)
  end
  return records
end

local function tidy(call, ending, token)
  local name, list = delivery_log.name_of(ending, token), delivery_log.list_of(call, ending, token)
  local old = delivery_log.count_until(list, 2, call.now_ms - delivery_log.KEPT_MS)
  if old == 0 then return end
  delivery_log.cut(call, name, tonumber(redis.call('ZSCORE', call.keys.deliveries_logs(), name)), old)
end

local function tidy_trails(call)
  for _, ending in ipairs(delivery_log.ENDINGS) do
    local trail = call.keys.deliveries_trail(ending)
    local old = delivery_log.count_until(trail, 1, call.now_ms - delivery_log.KEPT_MS)
    if old > 0 then redis.call('LTRIM', trail, old, -1) end
  end
end

-- Corrects the stored number of records in all delivery logs together.
local function add_up(call, found)
  local logs, total = redis.call('ZRANGE', call.keys.deliveries_logs(), 0, -1, 'WITHSCORES'), 0
  for i = 2, #logs, 2 do total = total + logs[i] end
  if total == tonumber(redis.call('HGET', call.keys.deliveries_total(), 'records') or 0) then return end
  redis.call('HSET', call.keys.deliveries_total(), 'records', total)
  findings.add(found, 'records_total_wrong', call.keys.deliveries_total())
end

return function(call, args)
  local found = {}
  for _, name in ipairs(args.names) do
    local ending, token = delivery_log.read_name(name)
    if redis.call('EXISTS', call.keys.subscriber(token)) == 0 then
      delivery_log.remove(call, ending, token)
    elseif recount(call, ending, token, found) > 0 then
      tidy(call, ending, token)
    end
  end
  if #args.names == 0 then
    add_up(call, found)
    tidy_trails(call)
  end
  return found
end
