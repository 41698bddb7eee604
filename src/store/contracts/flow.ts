import type { Contract } from '../contract.ts';
import { held, lanes } from './delivering.ts';

/** The rules of a join that a call goes by, and the limits of what it publishes. */
const join = {
  token: 'text',
  name: 'text',
  client: 'text',
  version: 'text',
  withinMs: 'number',
  thenTopic: 'text',
  thenType: 'text',
  expiryTopic: 'text?',
  expiryType: 'text?',
  sources: [{ topic: 'text', count: 'number' }],
  maxTopics: 'number',
  maxClientTopics: 'number',
  uidSeed: 'text',
} as const;

const refusal = 'claimed_by_other|no_room|owns_too_many';

const published = [{ topic: 'text', events: 'number', bytes: 'number', subscribers: 'text' }] as const;

export const flowContracts = {
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
    },
    reply: {
      outcome: `created|changed|too_many_joins|too_many_client_joins|too_many_of_topic|loop|has_join|${refusal}`,
      topic: 'text?',
    },
  },
  join_events: {
    arguments: {
      ...held,
      ...lanes,
      ...join,
      bid: 'text',
      createdMs: 'number',
      maxKeys: 'number',
      maxBytes: 'number',
      left: 'number',
      events: [{ topic: 'text', key: 'text?', id: 'text', url: 'text' }],
    },
    reply: {
      outcome: 'counted|not_held|changed|refused',
      reason: `replaced|${refusal}?`,
      taken: 'number',
      isDone: 'flag',
      completed: 'number',
      expired: 'number',
      evicted: 'number',
      unkeyed: 'number',
      published,
      expiryRefusal: `replaced|${refusal}?`,
    },
  },
  expire_keys: {
    arguments: { ...join, maxClosed: 'number' },
    reply: {
      changed: 'flag',
      expired: 'number',
      isLeft: 'flag',
      published,
      expiryRefusal: `replaced|${refusal}?`,
    },
  },
} as const satisfies Record<string, Contract>;
