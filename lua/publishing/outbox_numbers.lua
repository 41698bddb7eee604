--[[
Outbox numbers: each outbox entry has a number, and another partition ignores all numbers up to the last one that it has
applied. So an entry may be sent again. But a new entry must have a higher number than all that were ever sent, even
than those that this Redis does not know, because a failover has lost them.

A number is the time (µs) of the script call by Redis's clock plus `ahead`, or one more than the last number if that is
higher. `ahead` is 0 until another Redis has taken over (redis_run.lua) or the clock was set back: then the numbers jump
by JUMP_US, and stay ahead of the clock for good. For example, in seconds:

                                   clock  last number  ahead  next number
  A adds an entry                  1000   990          0      1000
  and another one                  1001   1000         0      1001         another partition applies it
  A fails, and has not replicated the second entry. B takes over, its clock is behind:
  B adds an entry                  980    1000         80     1060
  and another one                  985    1060         80     1065
]]
local redis_run = include('store/redis_run')
local outbox_numbers = {}

-- While many entries are added, their numbers run ahead of the clock, but by at most this much. If they are further
-- ahead, the clock was set back.
local MAX_AHEAD_US = 100 * 1000
-- Numbers jump by this much (`check_redis`). After a takeover, they are then higher than all lost ones, if the clocks
-- of the two Redises differ by less.
local JUMP_US = 60 * 1000 * 1000

-- Reads the state of the outbox:
--   last   the number of the last entry
--   run    the `run_id` of the Redis in which an entry was last added, or workers were last scrubbed
--   bytes  the size (bytes) of all entries together
--   ahead  how far (µs) numbers are ahead of Redis's clock: 0 until another Redis takes over or the clock is set back
function outbox_numbers.read(call)
  local last, run, bytes, ahead =
    unpack(redis.call('HMGET', call.keys.outboxes_sent(), 'last', 'run', 'bytes', 'ahead'))
  return { last = tonumber(last) or 0, run = run, bytes = tonumber(bytes) or 0, ahead = tonumber(ahead) or 0 }
end

-- Returns the number before the next one, if no entry was added for long: the time of this call plus `ahead`, less one.
local function time_before(call, sent)
  return call.now_us - 1 + sent.ahead
end

-- Makes the numbers jump if another Redis has taken over since the last check, or its clock was set back: stores a new
-- `ahead` in Redis and in `sent`, the state of the outbox. The numbers of a new outbox do not jump.
function outbox_numbers.check_redis(call, sent)
  local run, is_new = redis_run.id() or '', sent.last == 0 and not sent.run
  local was_set_back = sent.last - time_before(call, sent) > MAX_AHEAD_US
  if run == sent.run and not was_set_back then return end
  local jump_us = is_new and 0 or JUMP_US
  sent.ahead = sent.ahead + math.max(0, sent.last - time_before(call, sent)) + jump_us
  sent.run = run
  redis.call('HSET', call.keys.outboxes_sent(), 'run', run, 'ahead', string.format('%d', sent.ahead))
end

-- Returns the number of the next entry. The numbers of further entries of this call are each higher by one.
function outbox_numbers.next(call, sent)
  outbox_numbers.check_redis(call, sent)
  return math.max(sent.last, time_before(call, sent)) + 1
end

-- Checks for another Redis while no entry is added. The script `scrub` calls this, so usually the replicas have got the
-- `run_id` before this Redis adds its first entry. The very first Redis stores its `run_id` too, although it has no
-- entries: otherwise the Redis that takes over from it could not notice the takeover.
--
-- Example: the Redis B takes over from A, which becomes B's replica. B adds an entry, and fails before A has got it. A
-- takes over again, finds B's `run_id`, and makes the numbers jump. Otherwise A's next entries could have lower numbers
-- than B's, which another partition may have applied.
function outbox_numbers.notice_other_redis(call)
  outbox_numbers.check_redis(call, outbox_numbers.read(call))
end

-- Makes the numbers of new entries higher than `number`, even if this Redis has lost its own last number. Returns false
-- if they were higher anyway.
function outbox_numbers.continue_above(call, number)
  if outbox_numbers.read(call).last >= number then return false end
  redis.call('HSET', call.keys.outboxes_sent(), 'last', string.format('%d', number))
  return true
end

return outbox_numbers
