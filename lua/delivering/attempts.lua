--[[
Attempts: the history of the failed attempts at a batch, each as JSON. If a worker died while it was delivering the
batch, the history has a note of the death.
]]
local attempts = {}

-- Maximum failed attempts in the history of a batch.
local MAX_KEPT = 20
-- The history of a batch has this text for each attempt whose worker died. A subscriber's answer in the history cannot
-- contain it, because JSON escapes the quotes in an answer.
local DEATH = '"reason":"its worker died"'
-- A batch is a suspect if this number of workers died while they were delivering it: the batch may have killed them.
-- One death proves little: if a process is killed, every batch that it was delivering gets a death in its history.
local DEATHS_OF_SUSPECT = 2

function attempts.note(call, bid, attempt)
  local list = call.keys.attempts(bid)
  if redis.call('RPUSH', list, attempt) > MAX_KEPT then
    -- The history is too long now, so the second oldest attempt is removed. Redis removes an item inside a list only by
    -- its value, so the item gets an empty value first. The oldest attempt stays, because it shows when the attempts
    -- began.
    redis.call('LSET', list, 1, '')
    redis.call('LREM', list, 1, '')
  end
end

-- Adds the death of a worker to the history of the batch that the worker was delivering. Call this before the worker's
-- lease is deleted: the number of the lease is the time (µs) at which the attempt began, and goes into the history.
function attempts.note_death(call, bid, worker)
  local at_us = tonumber(redis.call('HGET', call.keys.leases(), worker)) or call.now_us
  local at_ms = math.floor(at_us / 1000)
  local text = '{"at":%d,"status":null,"duration_ms":%d,%s,"answer":null}'
  attempts.note(call, bid, string.format(text, at_ms, math.max(0, call.now_ms - at_ms), DEATH))
end

-- Returns true if at least two workers died while they were delivering the batch.
function attempts.is_suspect(call, bid)
  local deaths = 0
  for _, attempt in ipairs(redis.call('LRANGE', call.keys.attempts(bid), 0, -1)) do
    if attempt:find(DEATH, 1, true) then deaths = deaths + 1 end
  end
  return deaths >= DEATHS_OF_SUSPECT
end

return attempts
