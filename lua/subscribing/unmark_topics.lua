#!lua flags=allow-oom
--[[
unmark_topics: remove from topics of this partition the mark that says that a certain other partition has subscribers of
them (elsewhere.lua), because the caller found none there. Returns the number of removed marks.

`marked_us` is when the mark was set, as the caller read it. If the mark has been set again since then, it stays,
because the partition may have a subscriber again. A topic that is left without publisher and subscriptions is deleted.
]]
local elsewhere = include('publishing/elsewhere')
local topics = include('subscribing/topics')

return function(call, args)
  local removed = 0
  for _, each in ipairs(args.topics) do
    local marks, kept = elsewhere.read(redis.call('HGET', call.keys.topic(each.topic), 'elsewhere')), {}
    for _, mark in ipairs(marks) do
      if mark.partition ~= args.partition or mark.marked_us ~= each.marked_us then kept[#kept + 1] = mark end
    end
    if #kept < #marks then
      elsewhere.store(call, each.topic, kept)
      topics.remove_if_unused(call, each.topic)
      removed = removed + 1
    end
  end
  return removed
end
