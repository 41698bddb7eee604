import { HOW_PAGED, SHOP } from './examples.ts';
import type { Texts } from './openapi.ts';

const TRIGGER_RULES = {
  topic: 'reports',
  event: { type: 'noop', url: 'https://shop.example.com/reports/daily' },
  schedule: { cron: '0 9 * * MON-FRI', timezone: 'Europe/London' },
  catch_up: 'latest',
};

const TRIGGER = {
  name: 'daily_report',
  ...TRIGGER_RULES,
  start: 1_795_171_446_000,
  end: null,
  offset: 0,
  paused: false,
  next_at: 1_795_424_400_000,
  last_at: null,
  fired: 0,
  missed: 0,
  last_error: null,
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
  name: 'order',
  client: SHOP,
  ...JOIN_RULES,
  created_at: 1_795_171_446_400,
  updated_at: 1_795_171_446_400,
  open: 1,
  oldest: 1_795_171_531_417,
  completed: 41,
  expired: 0,
  evicted: 0,
  unkeyed: 0,
  events: { queued: 0, oldest: null },
  dead_letters: { batches: 0, events: 0 },
  bytes: { queued: 0, dead_letters: 0 },
  dropped: 0,
  dropped_at: null,
};

const OPEN_KEY = {
  key: '17',
  since: 1_795_171_531_417,
  expires_at: 1_795_257_931_417,
  counts: { orders_paid: 1, parcels_packed: 0 },
  events: ['V1StGXR8_Z5jdHi6'],
};

const WHOSE = 'A client means its own; root and viewers say whose by `?client=`.';

export const JOINS: Texts = {
  'GET /joins': {
    summary: 'List joins',
    description: `A client sees its own, root and viewers all. ${HOW_PAGED}`,
    answer: [JOIN],
  },
  'PUT /joins/:name': {
    summary: 'Make or change a join',
    description:
      "It publishes an event when each of its sources has had its number of events with the same key. 201 if it is new. The topics that it publishes to become the client's. Root gives `client`.",
    body: JOIN_RULES,
    answer: JOIN,
  },
  'GET /joins/:name': {
    summary: 'Show a join with its open keys',
    description: `The oldest keys first. ${WHOSE}`,
    answer: { ...JOIN, keys: [OPEN_KEY] },
  },
  'DELETE /joins/:name': {
    summary: 'Remove a join',
    description: `Drops its open keys, its queue and its dead letters. ${WHOSE}`,
  },
};

export const TRIGGERS: Texts = {
  'GET /triggers': {
    summary: 'List triggers',
    description: `A client sees its own, root and viewers all, or those of one \`client\`. In pages of 100 or \`limit\`; the header \`Link\` leads to the next page.`,
    answer: [TRIGGER],
  },
  'PUT /triggers/:name': {
    summary: 'Make or change a trigger',
    description:
      "It publishes an event at each time of its schedule. 201 if it is new. Its topic becomes the client's. A field that is left out has its default; only `start` stays as it was. Each due time fires once; `id` is the name of the trigger, `@` and the due time, and `t` is the due time. Root gives `client`.",
    body: TRIGGER_RULES,
    answer: TRIGGER,
  },
  'GET /triggers/:name': {
    summary: 'Show a trigger',
    description: WHOSE,
    answer: { ...TRIGGER, preview: [1_795_424_400_000, 1_795_510_800_000] },
  },
  'DELETE /triggers/:name': { summary: 'Remove a trigger', description: WHOSE },
  'POST /triggers/:name/fire': {
    summary: 'Publish the event of a trigger now',
    description: 'The schedule stays as it is. Root gives `client`.',
    answer: { id: 'V1StGXR8_Z5jdHi6' },
  },
};
