import type { Parameter, Response } from './openapi.ts';

/** The chapters of the documentation. */
export const CHAPTERS = {
  Publishing: 'Events enter the bus.',
  Topics: 'What there is to subscribe to.',
  Subscribing: 'Who gets which events, where, and how.',
  Joins: 'Events that come when several topics have spoken.',
  Triggers: 'Events that come on a schedule.',
  'Dead letters': 'Batches that are not tried any more, kept whole.',
  Clients: 'Who may call, and with which limits.',
  Records: 'What was done, and what is queued.',
  Watching: 'Whether the bus works, and how it does.',
  Reference: 'This documentation.',
} as const;

/** Text and examples for a route. Its schemas give the rest of its documentation. */
export interface RouteText {
  chapter: keyof typeof CHAPTERS;
  summary: string;
  description?: string;
  /** An example of the body of a call. */
  body?: unknown;
  /** An example of the answer that has a body. */
  answer?: unknown;
  /** Headers that callers may send. */
  parameters?: Parameter[];
  /** Headers of a successful answer. */
  headers?: Response['headers'];
  /** The content type of an answer that is not JSON. */
  type?: 'text/plain' | 'text/html';
}

const BID = 'A96w5uKHOM8kSsHw----';
const SHOP = 'shop--psbsfvxhjewnxiczhqc0';
const BILLING = 'billing--0u7hfgkz3dq2p6xrwm5e';
const URL = 'https://shop.example.com/products/1';

const TOPIC = { name: 'products', publisher: SHOP, events: 1204, delayed: 1, dropped: null };

const SUBSCRIBER = {
  ...{ subscriber: BILLING, uuid: null, callback: 'https://billing.example.com/events' },
  ...{ max_events: 100, max_bytes: 1_048_576, timeout: 500, ordered: false, max_in_flight: 16 },
  ...{ max_attempts: 1500, max_age: 86_400_000, signing: 'v1', topics: ['products'] },
  ...{ health_points: 98, last_attempted_at: 1_795_171_447_000, paused_at: null, paused_by: null },
  events: { sent: 1200, queued: 4, oldest: 1_795_171_446_400 },
  dead_letters: { batches: 0, events: 0 },
  dropped: null,
};

const DEAD_LETTER = {
  ...{ id: BID, subscriber: BILLING, reason: 'max_age', created_at: 1_795_171_531_418 },
  ...{ died_at: 1_795_257_941_102, attempts: 1463, event_count: 1 },
};
export const DELIVERED_EVENT = {
  ...{ id: 'V1StGXR8_Z5jdHi6', topic: 'products', type: 'update', url: URL, t: 1_795_171_531_417 },
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

const TRIGGER_RULES = {
  topic: 'reports',
  event: { type: 'noop', url: 'https://shop.example.com/reports/daily' },
  schedule: { cron: '0 9 * * MON-FRI', timezone: 'Europe/London' },
  catch_up: 'latest',
};
const TRIGGER = {
  ...{ name: 'daily_report', ...TRIGGER_RULES },
  ...{ start: 1_795_171_446_000, end: null, offset: 0, paused: false },
  ...{ next_at: 1_795_424_400_000, last_at: null, fired: 0, missed: 0, last_error: null },
};

const JOIN_RULES = {
  sources: [
    { topic: 'orders_paid', count: 1 },
    { topic: 'parcels_packed', count: 2 },
  ],
  by: 'data.order_id',
  then: { topic: 'orders_ready', type: 'update' },
  within: 86_400_000,
  on_expiry: { topic: 'orders_stuck', type: 'noop' },
};
const JOIN = {
  ...{ name: 'order', client: SHOP, ...JOIN_RULES, created_at: 1_795_171_446_400 },
  ...{ updated_at: 1_795_171_446_400, open: 1, oldest: 1_795_171_531_417, completed: 41, expired: 0 },
  ...{ evicted: 0, unkeyed: 0, events: { queued: 0, oldest: null }, dead_letters: { batches: 0, events: 0 } },
  dropped: 0,
};
const OPEN_KEY = {
  ...{ key: '17', since: 1_795_171_531_417, expires_at: 1_795_257_931_417 },
  counts: { orders_paid: 1, parcels_packed: 0 },
  events: ['V1StGXR8_Z5jdHi6'],
};
const WHOSE = 'A client means its own; root and viewers say whose by `?client=`.';

const AUDITED = {
  ...{ id: '1795171541622-0', at: 1_795_171_541_622, action: 'topic.delete', role: 'client', client: SHOP },
  ...{ target: 'products', address: '203.0.113.9', status: 204, code: null },
};

const DELIVERY = {
  ...{ id: BID, subscriber: BILLING, state: 'taken', opened_at: 1_795_171_531_418 },
  ...{ first_attempt_at: 1_795_171_531_920, last_attempt_at: 1_795_171_534_392, ended_at: 1_795_171_534_401 },
  ...{ event_count: 1, bytes: 141, topics: { products: 1 }, attempt_count: 2 },
  attempts: [
    { at: 1_795_171_531_920, status: 503, duration_ms: 12, reason: 'HTTP 503', answer: 'down' },
    { at: 1_795_171_534_392, status: 204, duration_ms: 8, reason: null, answer: null },
  ],
  reason: null,
};

const JOB = {
  ...{ id: 'main-kqViYXRjaJG0QTk2dzV1S0hPTThrU3NIdy0tLS0', queue: 'main', name: 'batch', arguments: [BID] },
  ...{
    state: 'scheduled',
    subscriber: BILLING,
    due: 1_795_171_447_000,
    worker: null,
    since: null,
    attempts: 2,
    paused: null,
  },
};

const OF_ONE = 'A client means itself; root says whose by `?subscriber=`.';
const PAGED = 'Everything at once, unless `limit` asks for pages. The header `Link` leads to the next one.';
const SUBSCRIBE = {
  chapter: 'Subscribing',
  summary: 'Subscribe, or change a subscription',
  description:
    'The list of topics replaces the old one; topics that do not exist yet are created. A subscription that was answered counts for the next event. A setting that is left out, or null, keeps its value, except `uuid`. It ends a pause, unless root paused the subscriber. The answer shows a signing key that the bus made, once.',
  body: { topics: ['products'], callback: 'https://billing.example.com/events', uuid: 'my-password' },
  answer: { signing_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' },
} as const;
const LIST_SUBSCRIBERS = {
  chapter: 'Subscribing',
  summary: 'Show subscribers',
  description: `A client sees itself, root and viewers all. With \`sort\`, \`state\` or \`name\` they come as of the last sample, with \`lately\`. ${PAGED}`,
  answer: [SUBSCRIBER],
} as const;
const PING = {
  chapter: 'Watching',
  summary: 'Say the time',
  answer: { pong: '2026-11-20T10:45:41.622Z' },
} as const;
const DELETE_TOPIC = {
  chapter: 'Topics',
  summary: 'End a topic and all its subscriptions',
  description: 'For its publisher and root. What is queued is still delivered.',
} as const;

/** What the documentation says about each route of the API. A test compares it with the route table. */
export const TEXTS: Record<string, RouteText> = {
  'POST /topics/:name': {
    chapter: 'Publishing',
    summary: 'Publish events',
    description:
      'One event, an array of events or, as `application/x-ndjson`, one event a line: at most 10,000 events and 5 MiB. All of them are stored, or none. An event with `at` or `delay` waits until it is due. The first client that publishes to a topic owns it. The answer comes when every subscriber has the events in its queue. A publish under an `Idempotency-Key` can be repeated, and is stored once.',
    body: { type: 'update', url: URL, data: { price: 42 } },
    parameters: [
      {
        ...{ name: 'Idempotency-Key', in: 'header', required: false, example: '"8e03978e-40d5-43e8-bc93"' },
        description: 'A string of 1 to 255 visible ASCII characters, a new one for each publish.',
        schema: { type: 'string', pattern: '^"[!#-\\[\\]-~]{1,255}"$' },
      },
    ],
    headers: {
      'Idempotent-Replayed': {
        description: '`true` if this publish was accepted before, and is not stored again.',
        schema: { type: 'string' },
      },
      'RateLimit-Policy': {
        description: 'How much a client may publish, if that is limited.',
        schema: { type: 'string' },
      },
      RateLimit: { description: 'How much of that is left.', schema: { type: 'string' } },
    },
  },
  'GET /topics/:name/delayed': {
    chapter: 'Publishing',
    summary: 'List the events of a topic that wait',
    description:
      'In the order in which they will be published, in pages of 100 or `limit`, which may have fewer: follow the header `Link`. For the publisher of the topic, root and viewers.',
    answer: [{ at: DELIVERED_EVENT.t, event: DELIVERED_EVENT }],
  },
  'DELETE /topics/:name/delayed/:id': {
    chapter: 'Publishing',
    summary: 'Delete an event that waits',
    description: 'For the publisher of the topic and root.',
  },
  'GET /topics': { chapter: 'Topics', summary: 'List topics', description: PAGED, answer: [TOPIC] },
  'GET /topics/:name': {
    chapter: 'Topics',
    summary: 'Read a topic',
    description: 'With its subscribers, as far as the caller may see them.',
    answer: { ...TOPIC, subscriber_count: 1, subscribers: [BILLING] },
  },
  'DELETE /topics/:name': DELETE_TOPIC,
  'DELETE /topic/:name': DELETE_TOPIC,

  'POST /subscription': SUBSCRIBE,
  'POST /subscriber': SUBSCRIBE,
  'GET /subscriptions': LIST_SUBSCRIBERS,
  'GET /subscribers': LIST_SUBSCRIBERS,
  'GET /subscribers/:token': {
    chapter: 'Subscribing',
    summary: 'Read a subscriber',
    description: 'A client reads itself alone.',
    answer: SUBSCRIBER,
  },
  'DELETE /subscriber/topics/:name': {
    chapter: 'Subscribing',
    summary: 'End one subscription',
    description: 'What is queued is still delivered.',
  },
  'DELETE /subscriber': {
    chapter: 'Subscribing',
    summary: 'End all subscriptions',
    description: 'Drops the queue and the dead letters.',
  },
  'DELETE /subscribers/:token': {
    chapter: 'Subscribing',
    summary: 'Remove a subscriber',
    description: 'Drops its queue and its dead letters.',
  },
  'POST /subscribers/:token/pause': {
    chapter: 'Subscribing',
    summary: 'Deliver nothing more to a subscriber',
    description: 'What is under way ends; everything else is kept. For the subscriber itself and root.',
  },
  'POST /subscribers/:token/resume': {
    chapter: 'Subscribing',
    summary: 'Deliver to a paused subscriber again',
    description: 'It is tried at once. For the subscriber itself, unless root paused it, and root.',
  },
  'POST /subscribers/:token/test': {
    chapter: 'Subscribing',
    summary: 'Send a test event to a subscriber',
    description:
      'One event of type `noop` and topic `routemaster_test`, to this subscriber alone and in a batch of its own, whatever topics it has. It is delivered at once, as any other batch. For the subscriber itself and root.',
    answer: { delivery: BID },
  },
  'POST /subscriber/test': {
    chapter: 'Subscribing',
    summary: 'Send a test event to yourself',
    description: 'As `/subscribers/{token}/test`, for tokens that must not stand in a path.',
    answer: { delivery: BID },
  },
  'POST /subscriber/pause': {
    chapter: 'Subscribing',
    summary: 'Pause deliveries to yourself',
    description: 'As `/subscribers/{token}/pause`, for tokens that must not stand in a path.',
  },
  'POST /subscriber/resume': {
    chapter: 'Subscribing',
    summary: 'Resume deliveries to yourself',
    description: 'As `/subscribers/{token}/resume`, for tokens that must not stand in a path.',
  },

  'GET /joins': {
    chapter: 'Joins',
    summary: 'List joins',
    description: `A client sees its own, root and viewers all. ${PAGED}`,
    answer: [JOIN],
  },
  'PUT /joins/:name': {
    chapter: 'Joins',
    summary: 'Make or change a join',
    description:
      "It publishes an event when each of its sources has had its number of events with the same key. 201 if it is new. The topics that it publishes to become the client's.",
    body: JOIN_RULES,
    answer: JOIN,
  },
  'GET /joins/:name': {
    chapter: 'Joins',
    summary: 'Show a join with its open keys',
    description: `The oldest keys first. ${WHOSE}`,
    answer: { ...JOIN, keys: [OPEN_KEY] },
  },
  'DELETE /joins/:name': {
    chapter: 'Joins',
    summary: 'Remove a join',
    description: `Drops its open keys, its queue and its dead letters. ${WHOSE}`,
  },

  'GET /triggers': {
    chapter: 'Triggers',
    summary: 'List triggers',
    description: `A client sees its own, root and viewers all, or those of one \`client\`. In pages of 100 or \`limit\`; the header \`Link\` leads to the next page.`,
    answer: [TRIGGER],
  },
  'PUT /triggers/:name': {
    chapter: 'Triggers',
    summary: 'Make or change a trigger',
    description:
      "It publishes an event at each time of its schedule. 201 if it is new. Its topic becomes the client's. A field that is left out has its default; only `start` stays as it was. Each due time fires once; `id` is the name of the trigger, `@` and the due time, and `t` is the due time.",
    body: TRIGGER_RULES,
    answer: TRIGGER,
  },
  'GET /triggers/:name': {
    chapter: 'Triggers',
    summary: 'Show a trigger',
    description: WHOSE,
    answer: { ...TRIGGER, preview: [1_795_424_400_000, 1_795_510_800_000] },
  },
  'DELETE /triggers/:name': {
    chapter: 'Triggers',
    summary: 'Remove a trigger',
    description: WHOSE,
  },
  'POST /triggers/:name/fire': {
    chapter: 'Triggers',
    summary: 'Publish the event of a trigger now',
    description: 'The schedule stays as it is.',
    answer: { id: 'V1StGXR8_Z5jdHi6' },
  },

  'GET /dead_letters': {
    chapter: 'Dead letters',
    summary: 'List dead letters',
    description:
      'The newest first, in pages of 100 or `limit`. A client sees its own; root and viewers see all, or those of one `subscriber`. The header `Link` leads to the next page.',
    answer: [DEAD_LETTER],
  },
  'GET /dead_letters/:id': {
    chapter: 'Dead letters',
    summary: 'Show a dead letter with its events',
    description:
      '`history` has the first attempt and the last 19. `events` are as they would have been delivered.',
    answer: WHOLE_DEAD_LETTER,
  },
  'POST /dead_letters/:id/retry': {
    chapter: 'Dead letters',
    summary: 'Deliver a dead letter again',
    description: 'It becomes a batch with the same `webhook-id`, behind what is queued.',
  },
  'POST /dead_letters/retry': {
    chapter: 'Dead letters',
    summary: 'Deliver all dead letters of a subscriber again',
    description: `${OF_ONE} Covers what was dead when the call began.`,
    answer: { retried: 12 },
  },
  'DELETE /dead_letters/:id': { chapter: 'Dead letters', summary: 'Delete a dead letter' },
  'DELETE /dead_letters': {
    chapter: 'Dead letters',
    summary: 'Delete all dead letters of a subscriber',
    description: OF_ONE,
    answer: { purged: 12 },
  },

  'GET /api_tokens': {
    chapter: 'Clients',
    summary: 'List clients',
    description: `${PAGED} 204 if there are none.`,
    answer: [{ token: SHOP, name: 'shop', publish: ['products', 'orders_*'] }],
  },
  'POST /api_tokens': {
    chapter: 'Clients',
    summary: 'Create a client',
    description:
      'With `name` alone the client gets a token and a secret, which is shown this once. With `token`, or `"secret": false`, its token is its credential. If a client without a secret has that token, it gets this name and these limits instead. Fields that are not listed are ignored.',
    body: { name: 'shop', publish: ['products', 'orders_*'] },
    answer: {
      token: SHOP,
      name: 'shop',
      publish: ['products', 'orders_*'],
      secret: 'mA0fJd5cXnJ4yq1vRtZ2Lw7eKxU9bHgP',
    },
  },
  'POST /api_tokens/:token/secret': {
    chapter: 'Clients',
    summary: "Replace a client's secret",
    description: 'The old secret works for `grace` ms more. The new one is shown this once.',
    body: { grace: 3_600_000 },
    answer: { token: SHOP, secret: 'mA0fJd5cXnJ4yq1vRtZ2Lw7eKxU9bHgP', grace: 3_600_000 },
  },
  'DELETE /api_tokens/:token': {
    chapter: 'Clients',
    summary: 'Remove a client',
    description: 'Its subscriber goes too, with its queue and its dead letters. 204 also if there was none.',
  },

  'GET /deliveries': {
    chapter: 'Records',
    summary: 'Show what became of each batch',
    description:
      'The newest first, in pages of 100 or `limit`; a page may have fewer, or none: follow its `Link`. A client sees its own; root and viewers see all, or those of one `subscriber`. A batch that was taken or dropped is shown for a day at most. A batch that still exists has `bytes` and `topics` only in `/deliveries/{id}`.',
    answer: [DELIVERY],
  },
  'GET /deliveries/:id': {
    chapter: 'Records',
    summary: 'Show what became of a batch',
    description: '`events` are there while the batch is, as they are delivered.',
    answer: DELIVERY,
  },
  'POST /deliveries/:id/retry': {
    chapter: 'Records',
    summary: 'Try a batch now',
    description:
      'A batch that waits for its deadline, or for its next attempt, is tried at once, also if its subscriber is held back after failures. In order, if the subscriber asked for that: then its oldest batch is tried. For the subscriber itself and root.',
  },

  'GET /audit': {
    chapter: 'Records',
    summary: 'Show who changed what',
    description:
      'Every call that changed something, or tried to, except publishes, and pauses by the bus itself; the newest first, in pages of 100 or `limit`. With `client` or `action` a page may be empty: follow its `Link`.',
    answer: [AUDITED],
  },
  'GET /jobs': {
    chapter: 'Records',
    summary: 'List jobs',
    description:
      'In pages of 100 or `limit`, which may have fewer: follow the header `Link`. Jobs that change their state meanwhile may be shown twice, or not at all.',
    answer: [JOB],
  },
  'POST /jobs/:id/run': {
    chapter: 'Records',
    summary: 'Run a scheduled job now',
    description:
      'It becomes instant, behind the others. A delivery may still have to wait: while its subscriber is held back or paused, or has no room.',
  },

  'GET /history': {
    chapter: 'Watching',
    summary: 'Read the figures of two days',
    description: 'A client sees those of the bus, of topics, and of its own subscriptions.',
    answer: {
      ...{ subject: 'topic:products', range: '1h', start: 1_795_171_440_000, step: 10_000 },
      metrics: { published: { unit: 'events/s', values: [null, 12.5, 13.1] } },
    },
  },
  'GET /tail': {
    chapter: 'Watching',
    summary: 'Look at events as they are accepted',
    description:
      'Answers the newest hundred that were noted in the last 15 seconds, the newest first. Web processes begin to note ' +
      'when they see that somebody asks, within a second. Ask again every few seconds.',
    answer: [
      {
        ...{ at: 1_795_171_531_418, topic: 'products', client: SHOP, bytes: 121, skipped: 0 },
        event: DELIVERED_EVENT,
      },
    ],
  },
  'GET /metrics': {
    chapter: 'Watching',
    summary: 'Show the figures of the bus',
    description: 'In the text format of Prometheus.',
    answer: '# TYPE routemaster_workers gauge\nroutemaster_workers 64\n',
    type: 'text/plain',
  },
  'GET /pulse': { chapter: 'Watching', summary: 'Say whether the bus works, Redis included' },
  'GET /pulse/scaling': {
    chapter: 'Watching',
    summary: 'Answer late when many deliveries are due',
    description: 'For autoscalers that watch response times: it takes a second then.',
  },
  'GET /health': { chapter: 'Watching', summary: 'Say that this process is up', answer: {} },
  'GET /health/ping': PING,
  'GET /health/ping.json': PING,

  'GET /openapi.json': {
    chapter: 'Reference',
    summary: 'Describe the API for programs',
    description: 'An OpenAPI 3.1 document.',
    answer: { openapi: '3.1.0' },
  },
  'GET /docs': {
    chapter: 'Reference',
    summary: 'Describe the API for people',
    answer: '<!doctype html>',
    type: 'text/html',
  },
};
