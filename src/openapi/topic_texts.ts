import { readSettings } from '../subscribing/subscription_settings.ts';
import { BID, BILLING, DELIVERED_EVENT, HOW_PAGED, SHOP, URL } from './examples.ts';
import type { Texts } from './openapi.ts';

const TOPIC = { name: 'products', publisher: SHOP, events: 1204, delayed: 1, dropped: null };

const SUBSCRIBER = {
  subscriber: BILLING,
  uuid: null,
  callback: 'https://billing.example.com/events',
  ...readSettings({}, { laneLimit: 16, laneLimitMax: 64, maxAttempts: 1500, maxAgeMs: 86_400_000 }),
  signing: 'v1',
  topics: ['products'],
  health_points: 98,
  last_attempted_at: 1_795_171_447_000,
  paused_at: null,
  paused_by: null,
  events: { sent: 1200, queued: 4, oldest: 1_795_171_446_400 },
  dead_letters: { batches: 0, events: 0 },
  bytes: { queued: 1816, dead_letters: 0 },
  dropped: null,
};

export const PUBLISHING: Texts = {
  'POST /topics/:name': {
    summary: 'Publish events',
    description:
      'One event, an array of events or, as `application/x-ndjson`, one event a line: at most 10,000 events and 5 MiB. All of them are stored, or none. An event with `at` or `delay` waits until it is due. The first client that publishes to a topic owns it. The answer comes when the events are stored for every subscriber. A publish under an `Idempotency-Key` can be repeated, and is stored once.',
    body: { type: 'update', url: URL, data: { price: 42 } },
    parameters: [
      {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        example: '"8e03978e-40d5-43e8-bc93"',
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
    summary: 'List the events of a topic that wait',
    description:
      'In the order in which they will be published, in pages of 100 or `limit`, which may have fewer: follow the header `Link`. For the publisher of the topic, root and viewers.',
    answer: [{ at: DELIVERED_EVENT.t, event: DELIVERED_EVENT }],
  },
  'DELETE /topics/:name/delayed/:id': {
    summary: 'Delete an event that waits',
    description: 'For the publisher of the topic and root.',
  },
};

export const TOPICS: Texts = {
  'GET /topics': {
    summary: 'List topics',
    description: `With \`sort\` they come as of the last sample, with \`lately\`. ${HOW_PAGED}`,
    answer: [TOPIC],
  },
  'GET /topics/:name': {
    summary: 'Read a topic',
    description: 'With its subscribers, as far as the caller may see them.',
    answer: { ...TOPIC, subscriber_count: 1, subscribers: [BILLING] },
  },
  'PUT /topics/:name/publisher': {
    summary: 'Give a topic to another client',
    description:
      "The client publishes to it from now on, and its former publisher, which may be gone, no longer. Subscriptions and events stay; those that wait for their time count as the new publisher's. A topic that nobody owns can be given too.",
    body: { client: SHOP },
  },
  'DELETE /topics/:name': {
    summary: 'End a topic and all its subscriptions',
    description: 'For its publisher and root. What is queued is still delivered.',
  },
};

export const SUBSCRIBING: Texts = {
  'POST /subscription': {
    summary: 'Subscribe, or change a subscription',
    description:
      'The list of topics replaces the old one; topics that do not exist yet are created. All that is published after the answer counts. A setting that is left out, or null, keeps its value, except `uuid`: without it, deliveries carry none. The call ends a pause, unless root paused the subscriber. The answer shows a signing key that the bus made, once.',
    body: { topics: ['products'], callback: 'https://billing.example.com/events', uuid: 'my-password' },
    answer: { signing_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' },
  },
  'GET /subscriptions': {
    summary: 'Show subscribers',
    description: `A client sees itself, root and viewers all. With \`sort\`, \`state\` or \`name\` they come as of the last sample, with \`lately\`. ${HOW_PAGED}`,
    answer: [SUBSCRIBER],
  },
  'GET /subscribers/:token': {
    summary: 'Read a subscriber',
    description: 'A client reads itself alone.',
    answer: SUBSCRIBER,
  },
  'DELETE /subscriber/topics/:name': {
    summary: 'End one subscription',
    description: 'What is queued is still delivered.',
  },
  'DELETE /subscriber': {
    summary: 'End all subscriptions',
    description: 'Drops the queue and the dead letters.',
  },
  'DELETE /subscribers/:token': {
    summary: 'Remove a subscriber',
    description: 'Drops its queue and its dead letters.',
  },
  'POST /subscribers/:token/pause': {
    summary: 'Deliver nothing more to a subscriber',
    description: 'What is under way ends; everything else is kept. For the subscriber itself and root.',
  },
  'POST /subscribers/:token/resume': {
    summary: 'Deliver to a paused subscriber again',
    description: 'It is tried at once. For the subscriber itself, unless root paused it, and root.',
  },
  'POST /subscribers/:token/test': {
    summary: 'Send a test event to a subscriber',
    description:
      'One event of type `noop` and topic `routemaster_test`, to this subscriber alone and in a batch of its own, whatever topics it has. It is delivered at once, as any other batch. For the subscriber itself and root.',
    answer: { delivery: BID },
  },
  'POST /subscriber/test': {
    summary: 'Send a test event to yourself',
    description: 'As `/subscribers/{token}/test`, for tokens that must not stand in a path.',
    answer: { delivery: BID },
  },
  'POST /subscriber/pause': {
    summary: 'Pause deliveries to yourself',
    description: 'As `/subscribers/{token}/pause`, for tokens that must not stand in a path.',
  },
  'POST /subscriber/resume': {
    summary: 'Resume deliveries to yourself',
    description: 'As `/subscribers/{token}/resume`, for tokens that must not stand in a path.',
  },
};
