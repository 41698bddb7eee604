-- A lane opens: its probe is not put off any longer. (One that waits for room in a share is the only job of its lane that is
-- not aside, so nothing opens the lane meanwhile.)
local function release_probe(token, probe)
  redis.call('HDEL', key.subscriber(token), 'probe')
  if redis.call('ZREM', key.jobs_scheduled('main'), probe) == 1 then make_instant('main', probe) end
end
