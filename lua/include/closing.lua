-- Closes a batch to events. The job of a full one is instant, unless it is already: its deadline has come.
local function close_batch(token, bid)
  shut(token, bid)
  local job = batch_job(bid)
  if redis.call('ZREM', key.jobs_scheduled('main'), job) == 1 then make_instant('main', job) end
end
