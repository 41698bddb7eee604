#!lua
--[[
publish: append the events of many publications to the current batches of their topics' subscribers.

A publication is accepted or refused as a whole, before any event is stored. The first client to publish to a topic
becomes its owner; other clients get `claimed_by_other`. `no_room` means that a new topic would exceed `max_topics`, and
`owns_too_many` means that the client owns `max_client_topics` already. A publication that was accepted under an
idempotency key is remembered for `idempotency_window_ms`. If it comes again in this time, even in the same call, it
gets `repeated` and is not stored. A different publication under that key gets `key_reused`. `too_many_keys` means that
the client has used as many idempotency keys as it may (`max_client_keys`), and `outbox_full` that too many events
already wait for another partition with subscribers of the topic.

A subscriber gets its events in the order in which they were accepted, across all its topics. A batch that
becomes full, or has too little room for the bytes of these events, is closed, and its job becomes instant. A
new batch and its job are created in the same step, so every batch has a job. The index of an ordered subscriber
has its batches strictly in the order in which they were opened.

For each publication, the reply has its outcome and its number of subscribers, which is 0 unless it was accepted.
`published` has one entry for each topic of an accepted publication (storing.lua).
]]
local intake = include('publishing/intake')
local storing = include('publishing/storing')

return function(call, args)
  local intake_state, outcomes, subscribers = intake.begin(args), {}, {}
  for i, publication in ipairs(args.publications) do
    local refusal = intake.judge(call, intake_state, publication)
    outcomes[i], subscribers[i] = refusal or 'accepted', 0
    if not refusal then
      local topic = intake.accept(call, intake_state, publication)
      intake.add(call, intake_state, topic, publication.events)
      subscribers[i] = intake.count_subscribers(topic)
    end
  end
  storing.store(call, args.uid_seed, intake_state)
  if not call.failure then intake.remember(call, intake_state) end
  return { outcomes = outcomes, subscribers = subscribers, published = storing.published(intake_state) }
end
