#!lua
--[[
spend: admit publications as far as the rate limits of their clients permit (rates.lua).

A publication of any size is admitted if neither bucket of its client (one for events, one for bytes) is empty. So each
publication is admitted at some time, and no client exceeds its rate in the long run. A refused publication takes
nothing from the buckets. Each of the `demands` is for one publication. If a demand has `is_admitted`, its publication
has been admitted before, and its cost is taken even from empty buckets.

For each demand, the reply has `let_in`, which is true if it was admitted, and the time (ms) until each bucket of its
client is full.
]]
local rates = include('publishing/rates')

return function(call, args)
  local state, outcomes = rates.begin(call, args), {}
  for i, demand in ipairs(args.demands) do
    local client = demand.client
    local let_in = demand.is_admitted or not rates.is_empty(call, state, client)
    if let_in then rates.take(call, state, client, demand.events, demand.bytes) end
    local events_full_in_ms, bytes_full_in_ms = rates.full_in_ms(call, state, client)
    outcomes[i] = { let_in = let_in, events_full_in_ms = events_full_in_ms, bytes_full_in_ms = bytes_full_in_ms }
  end
  rates.store(call, state)
  return outcomes
end
