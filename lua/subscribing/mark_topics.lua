#!lua
--[[
mark_topics: note, for topics that live in this partition, that another partition has subscribers of them, and how many.
Such a note is a mark (elsewhere.lua).

Unknown topics are created without a publisher. If that would make more than `max_topics`, nothing changes and the reply
is `too_many_topics`. The reply is `ends_wait` if a topic was removed before, and the other partition has perhaps not
ended its subscriptions to that topic yet.
]]
local elsewhere = include('publishing/elsewhere')
local outboxes = include('publishing/outboxes')
local topics = include('subscribing/topics')

local function mark(call, partition, topic, subscribers)
  local marks = elsewhere.read(redis.call('HGET', call.keys.topic(topic), 'elsewhere'))
  local others = {}
  for _, each in ipairs(marks) do
    if each.partition ~= partition then others[#others + 1] = each end
  end
  others[#others + 1] = {
    partition = partition, subscribers = subscribers, marked_us = string.format('%d', call.now_us),
  }
  elsewhere.store(call, topic, others)
end

return function(call, args)
  local names = {}
  for i, each in ipairs(args.topics) do names[i] = each.topic end
  if topics.have_no_room(call, names, args.max_topics) then return 'too_many_topics' end
  for _, each in ipairs(args.topics) do
    redis.call('SADD', call.keys.topics(), each.topic)
    mark(call, args.partition, each.topic, each.subscribers)
  end
  return outboxes.may_end_subscriptions(call, args.partition) and 'ends_wait' or 'ok'
end
