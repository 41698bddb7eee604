--[[
Elsewhere: the marks of a topic. A *mark* is a note that another partition has subscribers of the topic.

A topic lives in one partition, its home. The field `elsewhere` of its hash there has a mark for each other partition
with subscribers of the topic: the number of the partition, how many of these subscribers it has, and the time (µs) at
which the mark was set, such as `3:120:1795400000000000`. Marks are separated by spaces.
]]
local elsewhere = {}

-- Parses the field `elsewhere` of a topic; `text` is nil or false if the field is missing. Returns a list of the marks:
-- for each other partition with subscribers of the topic, its number, how many subscribers it has, and when the mark
-- was set.
function elsewhere.read(text)
  local marks = {}
  if not text then return marks end
  for partition, subscribers, marked_us in text:gmatch('(%d+):(%d+):(%d+)') do
    marks[#marks + 1] = { partition = partition, subscribers = tonumber(subscribers), marked_us = marked_us }
  end
  return marks
end

function elsewhere.store(call, topic, marks)
  local texts = {}
  for i, mark in ipairs(marks) do
    texts[i] = ('%s:%d:%s'):format(mark.partition, mark.subscribers, mark.marked_us)
  end
  if #texts == 0 then
    redis.call('HDEL', call.keys.topic(topic), 'elsewhere')
  else
    redis.call('HSET', call.keys.topic(topic), 'elsewhere', table.concat(texts, ' '))
  end
end

-- Returns the number of subscribers that a topic has in other partitions. `marks` is a result of `elsewhere.read`.
function elsewhere.count(marks)
  local count = 0
  for _, mark in ipairs(marks) do count = count + mark.subscribers end
  return count
end

-- Returns a text with the numbers of the other partitions that have subscribers of a topic, separated by commas.
-- `marks` is a result of `elsewhere.read`.
function elsewhere.partitions(marks)
  local partitions = {}
  for i, mark in ipairs(marks) do partitions[i] = mark.partition end
  return table.concat(partitions, ',')
end

return elsewhere
