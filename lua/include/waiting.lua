-- Waiting aside: jobs for which the lane of their subscriber had no room. There is always one outside that brings them
-- back: a delivery in flight, one that is to be tried again, or the probe of a lane that fails.

-- Brings jobs back, the longest waiting first, behind what the queue has: lanes take turns. While a probe is awaited it
-- is the probe that brings them back.
local function bring_back(token, most)
  if redis.call('HEXISTS', key.subscriber(token), 'probe') == 1 then return end
  for _ = 1, most do
    local job = redis.call('LPOP', key.jobs_waiting(token))
    if not job then return end
    make_instant('main', job)
  end
end
