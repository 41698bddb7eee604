#!lua flags=allow-oom
--[[
sweep_topics: enter topics in the lists of the clients that own them, and delete topics that nobody uses.

A process of an earlier release keeps no such lists, and leaves topics without publisher and subscription behind. If the
topics were found in the list of a client, `owner` is this client, and topics that it does not own are removed from the
list. These repairs are not reported as findings.
]]
local topics = include('subscribing/topics')

return function(call, args)
  local keys = call.keys
  for _, topic in ipairs(args.topics) do
    local publisher = topics.publisher(call, topic)
    if args.owner and publisher ~= args.owner then redis.call('SREM', keys.topics_owned(args.owner), topic) end
    if publisher then
      redis.call('SADD', keys.topics_owned(publisher), topic)
    else
      topics.remove_if_unused(call, topic)
    end
  end
  return #args.topics
end
