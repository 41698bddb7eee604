import { BID, BILLING, DELIVERED_EVENT, HOW_PAGED, SHOP } from './examples.ts';
import type { Texts } from './openapi.ts';

const DEAD_LETTER = {
  id: BID,
  subscriber: BILLING,
  reason: 'max_age',
  created_at: 1_795_171_531_418,
  died_at: 1_795_257_941_102,
  attempts: 1463,
  event_count: 1,
};

const WHOLE_DEAD_LETTER = {
  ...DEAD_LETTER,
  history: [
    {
      at: 1_795_257_940_993,
      status: 503,
      duration_ms: 109,
      reason: 'HTTP 503',
      answer: 'down for maintenance',
    },
  ],
  events: [DELIVERED_EVENT],
};

const AUDITED = {
  id: '1795171541622-0',
  at: 1_795_171_541_622,
  action: 'topic.delete',
  role: 'client',
  client: SHOP,
  target: 'products',
  address: '203.0.113.9',
  status: 204,
  code: null,
  subscriptions: 2,
};

const DELIVERY = {
  id: BID,
  subscriber: BILLING,
  state: 'taken',
  opened_at: 1_795_171_531_418,
  closed_at: 1_795_171_531_918,
  first_attempt_at: 1_795_171_531_920,
  last_attempt_at: 1_795_171_534_392,
  ended_at: 1_795_171_534_401,
  event_count: 1,
  bytes: 141,
  topics: { products: 1 },
  attempt_count: 2,
  attempts: [
    { at: 1_795_171_531_920, status: 503, duration_ms: 12, reason: 'HTTP 503', answer: 'down' },
    { at: 1_795_171_534_392, status: 204, duration_ms: 8, reason: null, answer: null },
  ],
  reason: null,
};

const JOB = {
  id: 'main-kqViYXRjaJG0QTk2dzV1S0hPTThrU3NIdy0tLS0',
  queue: 'main',
  name: 'batch',
  arguments: [BID],
  state: 'scheduled',
  subscriber: BILLING,
  due: 1_795_171_447_000,
  worker: null,
  since: null,
  attempts: 2,
  paused: null,
};

const OF_ONE = 'A client means itself; root says whose by `?subscriber=`.';

export const DEAD_LETTERS: Texts = {
  'GET /dead_letters': {
    summary: 'List dead letters',
    description:
      'The newest first, in pages of 100 or `limit`. A client sees its own; root and viewers see all, or those of one `subscriber`. The header `Link` leads to the next page.',
    answer: [DEAD_LETTER],
  },
  'GET /dead_letters/:id': {
    summary: 'Show a dead letter with its events',
    description:
      '`history` has the first attempt and the last 19. `events` are as they would have been delivered.',
    answer: WHOLE_DEAD_LETTER,
  },
  'POST /dead_letters/:id/retry': {
    summary: 'Deliver a dead letter again',
    description: 'It becomes a batch with the same `webhook-id`, behind what is queued.',
  },
  'POST /dead_letters/retry': {
    summary: 'Deliver all dead letters of a subscriber again',
    description: `${OF_ONE} Covers what was dead when the call began.`,
    answer: { retried: 12 },
  },
  'DELETE /dead_letters/:id': { summary: 'Delete a dead letter' },
  'DELETE /dead_letters': {
    summary: 'Delete all dead letters of a subscriber',
    description: OF_ONE,
    answer: { purged: 12 },
  },
};

export const CLIENTS: Texts = {
  'GET /api_tokens': {
    summary: 'List clients',
    description: `${HOW_PAGED} 204 if there are none.`,
    answer: [
      {
        token: SHOP,
        name: 'shop',
        publish: ['products', 'orders_*'],
        created_at: 1_795_171_531_418,
        secret_at: 1_795_171_531_418,
        last_seen_at: 1_795_172_000_000,
      },
    ],
  },
  'POST /api_tokens': {
    summary: 'Create a client',
    description:
      'With `name` alone the client gets a token and a secret, which is shown this once. With `token`, or `"secret": false`, its token is its credential. If a client without a secret has that token, it gets this name and these limits instead.',
    body: { name: 'shop', publish: ['products', 'orders_*'] },
    answer: {
      token: SHOP,
      name: 'shop',
      publish: ['products', 'orders_*'],
      secret: 'mA0fJd5cXnJ4yq1vRtZ2Lw7eKxU9bHgP',
    },
  },
  'PUT /api_tokens/:token': {
    summary: 'Limit a client',
    description:
      'It may publish and subscribe to these topics from now on; a limit that is left out ends. It loses the subscriptions and joins that the limits do not permit, and its triggers that they do not permit are paused. Every process knows within a second.',
    body: { publish: ['products', 'orders_*'], subscribe: [] },
    answer: { token: SHOP, name: 'shop', publish: ['products', 'orders_*'], subscribe: [] },
  },
  'POST /api_tokens/:token/secret': {
    summary: "Replace a client's secret",
    description: 'The old secret works for `grace` ms more. The new one is shown this once.',
    body: { grace: 3_600_000 },
    answer: { token: SHOP, secret: 'mA0fJd5cXnJ4yq1vRtZ2Lw7eKxU9bHgP', grace: 3_600_000 },
  },
  'DELETE /api_tokens/:token': {
    summary: 'Remove a client',
    description: 'Its subscriber goes too, with its queue and its dead letters. 204 also if there was none.',
  },
};

export const RECORDS: Texts = {
  'GET /deliveries': {
    summary: 'Show what became of each batch',
    description:
      'The newest first, in pages of 100 or `limit`; a page may have fewer, or none: follow its `Link`. A client sees its own; root and viewers see all, or those of one `subscriber`. A batch that was taken or dropped is shown for a day at most. A batch that still exists has `bytes` and `topics` only in `/deliveries/{id}`.',
    answer: [DELIVERY],
  },
  'GET /deliveries/:id': {
    summary: 'Show what became of a batch',
    description:
      '`events` are there while the batch is, as they are delivered; `waits_for` and `next_attempt_at` while it waits for an attempt.',
    answer: DELIVERY,
  },
  'POST /deliveries/:id/retry': {
    summary: 'Try a batch now',
    description:
      'A batch that waits for its deadline, or for its next attempt, is tried at once, also if its subscriber is held back after failures. In order, if the subscriber asked for that: then its oldest batch is tried. For the subscriber itself and root.',
  },
  'POST /deliveries/:id/bury': {
    summary: 'Give up a batch now',
    description:
      'A batch that waits becomes a dead letter, and those behind it go on. For the subscriber itself and root.',
  },
  'GET /audit': {
    summary: 'Show who changed what',
    description:
      'Every call that changed something, or tried to, except publishes, and pauses by the bus itself; the newest first, in pages of 100 or `limit`. With `client`, `action` or `target` a page may be empty: follow its `Link`.',
    answer: [AUDITED],
  },
  'GET /jobs': {
    summary: 'List jobs',
    description:
      'In pages of 100 or `limit`, which may have fewer: follow the header `Link`. Jobs that change their state meanwhile may be shown twice, or not at all.',
    answer: [JOB],
  },
  'POST /jobs/:id/run': {
    summary: 'Run a scheduled job now',
    description:
      'It becomes instant, behind the others. A delivery may still have to wait: while its subscriber is held back or paused, or has no room.',
  },
};

export const WATCHING: Texts = {
  'GET /history': {
    summary: 'Read the figures of two days',
    description: 'A client sees those of the bus, of topics, and of its own subscriptions.',
    answer: {
      subject: 'topic:products',
      range: '1h',
      start: 1_795_171_440_000,
      step: 10_000,
      metrics: { published: { unit: 'events/s', values: [null, 12.5, 13.1] } },
    },
  },
  'GET /tail': {
    summary: 'Look at events as they are accepted',
    description:
      'Answers the newest hundred that were noted in the last 15 seconds, the newest first. Web processes begin to note ' +
      'when they see that somebody asks, within a second. Ask again every few seconds.',
    answer: [
      {
        at: 1_795_171_531_418,
        topic: 'products',
        client: SHOP,
        bytes: 121,
        skipped: 0,
        event: DELIVERED_EVENT,
      },
    ],
  },
  'GET /metrics': {
    summary: 'Show the figures of the bus',
    description: 'In the text format of Prometheus.',
    answer: '# TYPE routemaster_workers gauge\nroutemaster_workers 64\n',
    type: 'text/plain',
  },
  'GET /pulse': { summary: 'Say whether the bus works, Redis included' },
  'GET /pulse/scaling': {
    summary: 'Answer late when many deliveries are due',
    description: 'For autoscalers that watch response times: it takes a second then.',
  },
  'GET /health': { summary: 'Say that this process is up', answer: {} },
  'GET /health/ping': { summary: 'Say the time', answer: { pong: '2026-11-20T10:45:41.622Z' } },
};

export const REFERENCE: Texts = {
  'GET /openapi.json': {
    summary: 'Describe the API for programs',
    description: 'An OpenAPI 3.1 document.',
    answer: { openapi: '3.1.0' },
  },
  'GET /docs': { summary: 'Describe the API for people', answer: '<!doctype html>', type: 'text/html' },
};
