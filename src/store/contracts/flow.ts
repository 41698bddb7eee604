import type { Contract } from '../contract.ts';
import { heldJob, lanes } from './delivering.ts';
import { LIMITS, OUTCOMES, PUBLISHED } from './publishing.ts';

/**
 * The arguments of scripts that publish for a join, which collects events with the same key, such as the id of an
 * order.
 *
 * - `thenTopic`: gets an event when enough events of each source topic have come.
 * - `expiryTopic`: gets an event if they have not come within `withinMs`. Undefined if no event is wanted for this
 *   case.
 * - `thenHome`, `expiryHome`: the indexes of these topics' partitions. Undefined stands for the partition of the join.
 * - `version`: the time (µs) at which the rules of the join were last changed.
 */
const join = {
  token: 'text',
  name: 'text',
  client: 'text',
  version: 'text',
  withinMs: 'number',
  thenTopic: 'text',
  thenType: 'text',
  thenHome: 'text?',
  expiryTopic: 'text?',
  expiryType: 'text?',
  expiryHome: 'text?',
  sources: [{ topic: 'text', count: 'number' }],
  maxTopics: 'number',
  maxClientTopics: 'number',
  maxOutboxBytes: 'number',
  uidSeed: 'text',
} as const;

const refusal = 'claimed_by_other|no_room|owns_too_many';

const trigger = { client: 'text', name: 'text' } as const;

export const flowContracts = {
  delay: {
    arguments: {
      uidSeed: 'text',
      ...LIMITS,
      maxDelayMs: 'number',
      maxClientDelayed: 'number',
      maxClientBytes: 'number',
      publications: [
        {
          topic: 'text',
          client: 'text',
          digest: 'text?',
          fingerprint: 'bytes?',
          events: [{ id: 'text', at: 'digits?', delay: 'digits?', text: 'text', rest: 'text?' }],
        },
      ],
    },
    reply: {
      outcomes: [
        {
          outcome: `${OUTCOMES}|too_far|already_delayed|too_many_delayed|too_much_delayed`,
          index: 'number?',
          subscribers: 'number',
        },
      ],
      published: [PUBLISHED],
      nowMs: 'number',
    },
  },
  publish_delayed: {
    arguments: { uidSeed: 'text', firstClient: 'number', maxOutboxBytes: 'number' },
    reply: {
      published: [{ ...PUBLISHED, lateMs: ['number'] }],
      lost: [{ topic: 'text', id: 'text' }],
      isLeft: 'flag',
    },
  },
  list_delayed: {
    arguments: {
      topic: 'text',
      client: 'text?',
      limit: 'number',
      maxBytes: 'number',
      afterMs: 'digits?',
      afterSerial: 'number?',
    },
    reply: {
      outcome: 'ok|topic_not_found|forbidden',
      events: [{ at: 'number', serial: 'number', text: 'text' }],
      hasMore: 'flag',
    },
  },
  delete_delayed: {
    arguments: { topic: 'text', client: 'text?', id: 'text' },
    reply: 'ok|topic_not_found|forbidden|delayed_event_not_found',
  },
  put_join: {
    arguments: {
      token: 'text',
      name: 'text',
      client: 'text',
      rules: 'text',
      withinMs: 'number',
      maxJoins: 'number',
      maxClientJoins: 'number',
      maxTopics: 'number',
      maxClientTopics: 'number',
      sources: ['text'],
      outlets: ['text'],
      sourcesHere: ['text'],
      outletsHere: ['text'],
      foreignSources: ['text'],
      judgesOnly: 'flag',
    },
    reply: {
      outcome: `created|changed|too_many_joins|too_many_client_joins|too_many_of_topic|loop|has_join|${refusal}`,
      topic: 'text?',
      join: 'text?',
    },
  },
  claim_topics: {
    arguments: {
      client: 'text',
      maxTopics: 'number',
      maxClientTopics: 'number',
      topics: ['text'],
      judgesOnly: 'flag',
    },
    reply: { outcome: `ok|${refusal}`, topic: 'text?' },
  },
  join_events: {
    arguments: {
      ...heldJob,
      ...lanes,
      ...join,
      bid: 'text',
      createdMs: 'number',
      maxKeys: 'number',
      maxBytes: 'number',
      batchEvents: 'number',
      record: 'text?',
      events: [{ topic: 'text', key: 'text?', id: 'text', url: 'text' }],
    },
    reply: {
      outcome: 'counted|not_held|changed|refused|outbox_full',
      reason: `replaced|${refusal}?`,
      removed: 'number',
      isDone: 'flag',
      completed: 'number',
      expired: 'number',
      evicted: 'number',
      unkeyed: 'number',
      published: [PUBLISHED],
      expiryRefusal: `replaced|${refusal}?`,
    },
  },
  expire_keys: {
    arguments: { ...join, maxClosed: 'number', movedUntilMs: 'number?' },
    reply: {
      expired: 'number',
      published: [PUBLISHED],
      expiryRefusal: `replaced|${refusal}?`,
    },
  },
  put_trigger: {
    arguments: {
      ...trigger,
      isFixed: 'flag',
      before: 'text?',
      definition: 'text',
      topic: 'text',
      isPaused: 'flag',
      nextAt: 'digits?',
      step: 'put|judge|leave',
      maxTriggers: 'number',
      maxClientTriggers: 'number',
      maxClientBytes: 'number',
      maxTopics: 'number',
      maxClientTopics: 'number',
    },
    reply:
      'created|changed|conflict|client_not_found|not_permitted|claimed_by_other|no_room|owns_too_many|too_many|too_many_of_client|too_many_bytes',
  },
  receive_trigger: {
    arguments: {
      ...trigger,
      isFixed: 'flag',
      topic: 'text',
      definition: 'text',
      state: ['text'],
      seenUs: 'number',
      maxAgeMs: 'number',
    },
    reply: 'received|client_not_found|late',
  },
  remove_trigger: {
    arguments: { ...trigger, revision: 'text?', isNoted: 'flag' },
    reply: 'flag',
  },
  due_triggers: {
    arguments: { limit: 'number', firstClient: 'number', maxOutboxBytes: 'number' },
    reply: {
      nowMs: 'number',
      due: [{ ...trigger, dueAt: 'number', revision: 'text', catchUp: 'none|latest|all', timing: 'text' }],
      moving: [trigger],
    },
  },
  fire_triggers: {
    arguments: {
      uidSeed: 'text',
      maxTopics: 'number',
      maxClientTopics: 'number',
      burstMs: 'number',
      eventsPerSecond: 'number',
      bytesPerSecond: 'number',
      waiting: ['text'],
      firings: [
        {
          ...trigger,
          revision: 'text',
          dueAt: 'digits',
          nextAt: 'digits?',
          missed: 'number',
          error: 'text?',
          times: ['digits'],
        },
      ],
    },
    reply: {
      nowMs: 'number',
      outcomes: [
        {
          outcome: 'handled|changed|left|claimed_by_other|no_room|owns_too_many|rate_limited',
          fired: 'number',
        },
      ],
      spent: [{ client: 'text', events: 'number', bytes: 'number' }],
      published: [PUBLISHED],
    },
  },
} as const satisfies Record<string, Contract>;
