#!lua flags=allow-oom
--[[
nonce_uses: consume Digest nonce uses. A nonce use is one `nc` count of a nonce, and is valid only once.

Returns `consumed` for each use that this call consumed. A use is `repeated` if it was consumed before, or if its count
is too high: above the maximum, or too far above the last stored bit. A nonce has one bit for each count, so counts may
arrive in any order. A use is `replaced` if `key`, which signed the nonce, is no longer the key of the hour in which the
nonce was issued: this Redis may have forgotten the uses of that nonce.

The bits of a nonce are kept for `kept_ms` from its first use. A use is `expired` if, by Redis's clock, the nonce is
from more than `ahead_ms` in the future, or so old that its bits may be gone: older than `kept_ms` minus `ahead_ms`.
Callers check the age too, but after a leap of Redis's clock they may have a wrong time.

The bits of a nonce grow by steps, and each step is taken out of the client's quota of `max_client_nonces`. If no step
is left in the quota, the use is not consumed and its outcome is `too_many_nonces`. Somebody may have recorded such a
request, to repeat it later, when the client has quota again. So nonces that were issued to the client before that
refusal grow no more: a use that would need a further step is `old`.

If Redis's clock was set back, the time of a refusal may lie in the future, and new nonces would be `old` until the
clock has caught up. To avoid this, the next use that needs a step deletes the refusal. It also replaces all keys, and
is `replaced` itself, unless the keys were already replaced since the refusal.

If another program has written a key that a use needs, the use is not consumed and its outcome is `unreadable`. The
other uses of the call, which may be those of other clients, are consumed.
]]
local calls = include('store/calls')
local client_quota = include('authentication/client_quota')
local digest_keys = include('authentication/digest_keys')

-- Maximum count (`nc`) of a nonce. A nonce has one bit for each count, which is set when the count is used. The bits
-- need 8 KiB at most, for which Redis may reserve 20 KB of memory.
local MAX_COUNT = 65535
-- The stored bits of a nonce grow by this number, so a nonce that is used only a few times takes little memory. One use
-- makes them grow once at most. Example: while 512 bits are stored, the count 1023 is accepted, and 1024 is refused.
local STEP = 512

-- Returns what is stored about the last nonce use that was refused because the client's quota was used up: the time
-- (ms) of the refusal, the hour of the key that had signed the nonce, and the key itself. Returns nothing if no refusal
-- is stored.
local function last_refusal(call, client)
  local text = redis.call('GET', call.keys.nonces_refused(client)) or ''
  local at_ms, hour, key = text:match('^(%d+) (%d+) (.*)$')
  return tonumber(at_ms), hour, key
end

local function store_refusal(call, use, kept_ms)
  local hour = math.floor(use.issued_at_ms / digest_keys.HOUR_MS)
  local text = string.format('%d %d ', call.now_ms, hour) .. use.key
  redis.call('SET', call.keys.nonces_refused(use.client), text, 'PX', kept_ms)
end

-- Adds STEP bits to the stored bits of a nonce, and takes one permission from the client's quota. If it cannot, returns
-- the outcome of the nonce use:
--   - `too_many_nonces`: the quota is used up
--   - `old`: the nonce was issued before the client's last refusal for `too_many_nonces`
--   - `replaced`: the key that signed the nonce was replaced
local function grow(call, quota, use, uses, bits, kept_ms)
  local refused_at_ms, hour, key = last_refusal(call, use.client)
  if refused_at_ms and refused_at_ms > call.now_ms then
    redis.call('DEL', call.keys.nonces_refused(use.client))
    refused_at_ms = nil
    -- Redis's clock was set back, so the last refusal lies in the future. Nonces older than the last refusal are
    -- refused, so every new nonce would be refused. Therefore this call has deleted the refusal. But without it, the
    -- bus would accept the refused request if somebody repeated it. To prevent this, all keys that sign nonces are
    -- replaced, unless the key that signed the nonce of that request is out of use already.
    if redis.call('HGET', call.keys.digest_keys(), hour) == key then
      digest_keys.replace(call)
      return 'replaced'
    end
  end
  if refused_at_ms and use.issued_at_ms <= refused_at_ms then return 'old' end
  if client_quota.is_empty(quota, use.client) then
    store_refusal(call, use, kept_ms)
    return 'too_many_nonces'
  end
  client_quota.take(quota, use.client)
  redis.call('SETBIT', uses, bits + STEP - 1, 0)
  if bits == 0 then redis.call('PEXPIRE', uses, kept_ms) end
end

local function consume(call, quota, use, kept_ms)
  local uses, count = call.keys.nonce_uses(use.nonce), use.count
  local bits = redis.call('STRLEN', uses) * 8
  if count > MAX_COUNT or count >= bits + STEP then return 'repeated' end
  local refusal = count >= bits and grow(call, quota, use, uses, bits, kept_ms)
  if refusal then return refusal end
  return redis.call('SETBIT', uses, count, 1) == 0 and 'consumed' or 'repeated'
end

local function is_in_time(call, use, args)
  local age_ms = call.now_ms - use.issued_at_ms
  return age_ms > -args.ahead_ms and age_ms < args.kept_ms - args.ahead_ms
end

return function(call, args)
  digest_keys.replace_after_restart(call)
  local quota = client_quota.begin(call, call.keys.nonce_quota, args.max_client_nonces, args.kept_ms)
  local key_of, outcomes = {}, {}
  for i, use in ipairs(args.uses) do
    local hour = math.floor(use.issued_at_ms / digest_keys.HOUR_MS)
    key_of[hour] = key_of[hour] or redis.call('HGET', call.keys.digest_keys(), hour)
    local outcome = 'replaced'
    if key_of[hour] == use.key then
      outcome = 'expired'
      if is_in_time(call, use, args) then
        outcome = calls.skip_wrong_type(consume, call, quota, use, args.kept_ms) or 'unreadable'
      end
      if outcome == 'replaced' then key_of = {} end
    end
    outcomes[i] = outcome
  end
  client_quota.store(quota)
  return outcomes
end
