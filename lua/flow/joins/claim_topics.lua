#!lua
--[[
claim_topics: make a client the publisher of topics that live in this partition, because a join of the client in another
partition will publish to them. If the client may not have one of the topics, nothing changes, `topic` is that topic,
and `outcome` is one of the refusals that publish.lua describes. With `judges_only`, nothing changes in any case.
]]
local intake = include('publishing/intake')

return function(call, args)
  local intake_state = intake.begin(args)
  local refusal, topic = intake.judge_all(call, intake_state, args.client, args.topics)
  if refusal then return { outcome = refusal, topic = topic } end
  if args.judges_only then return { outcome = 'ok' } end
  for _, each in ipairs(args.topics) do intake.accept(call, intake_state, { topic = each, client = args.client }) end
  return { outcome = 'ok' }
end
