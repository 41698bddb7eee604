#!lua flags=allow-oom
--[[
read_subscribers: read the data from which the API describes these subscribers. Changes nothing.

Returns a text of JSON for each subscriber that exists, in the order of `tokens`: the token, its hash, its topics, the
number of its queued events, the score (µs) of its oldest queued batch, the numbers of its dead letters and of their
events, the sums of what was dropped (`dropped:{token}`), and the numbers of dropped events in its next drop notice, and
in the one that a delivery carries now. A missing value is false. An empty list is `{}`, as cjson has it. 100
subscribers take the web process 1.5 ms of CPU, and Redis 3.8 ms; a pipeline of nine commands for each subscriber took
11.4 ms and 2.8 ms.
]]
return function(call, args)
  local keys, found = call.keys, {}
  for _, token in ipairs(args.tokens) do
    local hash = redis.call('HGETALL', keys.subscriber(token))
    if #hash > 0 then
      found[#found + 1] = cjson.encode({
        token, hash, redis.call('SMEMBERS', keys.subscriber_topics(token)),
        redis.call('HGET', keys.gauge_events(), token),
        redis.call('ZRANGE', keys.batches_queued(token), 0, 0, 'WITHSCORES')[2] or false,
        redis.call('ZCARD', keys.dead_letters_of(token)), redis.call('HGET', keys.dead_letters_events(), token),
        redis.call('HGETALL', keys.dropped(token)),
        redis.call('HGET', keys.drop_notice(token), 'events'),
        redis.call('HGET', keys.drop_notice_carried(token), 'events'),
      })
    end
  end
  return found
end
