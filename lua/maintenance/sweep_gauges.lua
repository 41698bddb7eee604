#!lua flags=allow-oom
--[[
sweep_gauges: correct the gauges (stored numbers of batches and events) of one subscriber if they differ from its queue
or from its dead letters.

A long queue needs several script calls. Each script call counts some slices of the queue's index. A slice is about 200
batches between two scores. INTERNALS.md says why the sum is exact although the queue changes meanwhile. If acquire has
split a batch meanwhile (`cuts` in the hash of the subscriber), all slices are counted again.

`counted` has the slices counted so far: the score at which each ends, the number of its batches (`members`), and the
number of their events. If all slices are counted, `finished` is true in the reply, and the findings name the
corrected gauges. Otherwise `finished` is false, and the reply has the slices for the next call.
]]
local batches = include('delivering/batches')
local calls = include('store/calls')
local findings = include('maintenance/findings')
local join_tokens = include('flow/joins/join_tokens')
local open_batches = include('delivering/open_batches')

-- After this number of batches, a script call stops counting, so as not to block Redis. The next call goes on.
local MAX_LISTS = 2000
-- Number of batches in a slice, a part of an index. If a queue is too long for one script call, each call counts some
-- slices. A slice can have more batches, because batches with the same score are in the same slice.
local BATCHES_PER_SLICE = 200
-- Stored in place of a slice's number of batches if one of its batches is open, and may get more events. It differs
-- from any real number of batches, so the next script call sees a change, and counts the slice again.
local HAS_OPEN_BATCH = -1

-- Creates a table about what is counted: the batches or the dead letters of a subscriber. Its fields:
--   index    the key of the sorted set of their UIDs
--   list_of  a function that returns the key of a batch or dead letter
--   open     a set with the UID of the open batch, which may still get events
--   shrinks  true for a join, because it removes events from its oldest batch as it counts them, perhaps before the
--            next script call
--   read     how many batches or dead letters this script call has counted so far
local function subject_of(call, what, token)
  local keys, open = call.keys, {}
  if what == 'dead_letters' then
    return { index = keys.dead_letters_of(token), list_of = keys.dead_letter, open = open, shrinks = false, read = 0 }
  end
  open[open_batches.bid_of(call, token) or ''] = true
  return {
    index = keys.batches_queued(token), list_of = keys.batch, open = open, read = 0,
    shrinks = join_tokens.is_join(token),
  }
end

-- Returns two numbers about the batches between two scores: how many there are (HAS_OPEN_BATCH if one of them is open),
-- and how many events they have.
local function count_slice(subject, from, to)
  local bids, events, all_closed = redis.call('ZRANGE', subject.index, from, to, 'BYSCORE'), 0, true
  for _, bid in ipairs(bids) do
    -- LLEN fails on a key of another type. Such a key counts as a batch without events.
    local length = calls.read('LLEN', subject.list_of(bid))
    if type(length) == 'number' then events = events + math.max(0, length - batches.HEADER) end
    all_closed = all_closed and not subject.open[bid]
  end
  subject.read = subject.read + #bids
  return all_closed and #bids or HAS_OPEN_BATCH, events
end

-- Counts the events of an index in slices, until the script call has counted MAX_LISTS batches. `counted` has the
-- slices that earlier calls counted. A slice is counted again if it may have changed since: its number of batches
-- differs, or it has the oldest batch of a join, which loses events as the join counts them. The batches after the last
-- full slice are not counted here. Returns three values:
--   slices  all slices so far, for the next script call
--   events  the number of events in the slices, or false if this script call stopped early
--   from    the score at which the last slice ends
local function count_all(subject, counted)
  local slices, from, events, finished, shrinks = {}, '(-inf', 0, true, subject.shrinks
  local function add(to, members, slice_events)
    slices[#slices + 1] = { to = to, members = members, events = slice_events }
    from, events = '(' .. to, events + slice_events
  end
  for _, slice in ipairs(counted) do
    local members, slice_events = slice.members, slice.events
    local members_now = redis.call('ZCOUNT', subject.index, from, slice.to)
    if shrinks or members_now ~= members then
      if subject.read < MAX_LISTS then
        members, slice_events = count_slice(subject, from, slice.to)
      else
        finished = false
      end
    end
    shrinks = shrinks and members_now == 0
    add(slice.to, members, slice_events)
  end
  while subject.read < MAX_LISTS do
    local last = BATCHES_PER_SLICE - 1
    local to = redis.call('ZRANGE', subject.index, from, '+inf', 'BYSCORE', 'LIMIT', last, 1, 'WITHSCORES')[2]
    if not to then break end
    add(to, count_slice(subject, from, to))
  end
  return slices, finished and subject.read < MAX_LISTS and events, from
end

local function correct(found, gauge, token, kind, counted)
  local wanted = counted > 0 and string.format('%d', counted)
  if redis.call('HGET', gauge, token) == wanted then return end
  if wanted then
    redis.call('HSET', gauge, token, wanted)
  else
    redis.call('HDEL', gauge, token)
  end
  findings.add(found, kind, token)
end

return function(call, args)
  local keys, token, found = call.keys, args.token, {}
  local subject = subject_of(call, args.what, token)
  local cuts = tonumber(redis.call('HGET', keys.subscriber(token), 'cuts')) or 0
  local slices, events, from = count_all(subject, cuts == args.cuts and args.counted or {})
  if not events then return { finished = false, findings = {}, cuts = cuts, counted = slices } end
  local _, last = count_slice(subject, from, '+inf')
  if args.what == 'dead_letters' then
    correct(found, keys.dead_letters_events(), token, 'dead_letters_miscounted', events + last)
  else
    correct(found, keys.gauge_events(), token, 'events_miscounted', events + last)
    correct(found, keys.gauge_batches(), token, 'batches_miscounted', redis.call('ZCARD', subject.index))
  end
  return { finished = true, findings = found, cuts = cuts, counted = {} }
end
