import type { Contract } from '../contract.ts';
import { series as counter } from './metrics.ts';

const series = [counter] as const;

export const subscribingContracts = {
  read_subscribers: {
    arguments: { tokens: ['text'] },
    reply: 'text',
  },
  subscribe: {
    arguments: {
      token: 'text',
      callback: 'text',
      uuid: 'text',
      laneLimit: 'number',
      laneLimitMax: 'number',
      signingKey: 'text?',
      signingOverlapMs: 'number',
      maxTopics: 'number',
      maxSubscribers: 'number',
      settings: [{ name: 'text', value: 'text' }],
      topics: ['text'],
      foreign: ['text'],
    },
    reply: 'ok|too_many_topics|too_many_subscribers',
  },
  unsubscribe: {
    arguments: { token: 'text', topic: 'text', isForeign: 'flag' },
    reply: 'ok|subscriber_not_found|topic_not_found|not_subscribed',
  },
  pause: {
    arguments: { token: 'text', by: 'operator|subscriber' },
    reply: 'ok|subscriber_not_found',
  },
  resume: {
    arguments: { token: 'text', by: 'operator|subscriber', laneLimitMax: 'number' },
    reply: 'ok|subscriber_not_found|paused_by_operator',
  },
  remove_subscriber: {
    arguments: { token: 'text', series },
    reply: { found: 'flag', nowMs: 'number' },
  },
  remove_topic: {
    arguments: { topic: 'text', client: 'text?', series },
    reply: {
      outcome: 'ok|topic_not_found|forbidden',
      delayed: 'number',
      subscriptions: 'number',
      partitions: ['number'],
    },
  },
  give_topic: {
    arguments: {
      topic: 'text',
      client: 'text',
      maxClientTopics: 'number',
      maxClientDelayed: 'number',
      maxClientBytes: 'number',
    },
    reply: 'ok|topic_not_found|owns_too_many|too_many_delayed|too_much_delayed',
  },
  mark_topics: {
    arguments: {
      partition: 'text',
      maxTopics: 'number',
      topics: [{ topic: 'text', subscribers: 'number' }],
    },
    reply: 'ok|too_many_topics|ends_wait',
  },
  unmark_topics: {
    arguments: { partition: 'text', topics: [{ topic: 'text', markedUs: 'text' }] },
    reply: 'number',
  },
  drop_queue: {
    arguments: { token: 'text', maxBatches: 'number', untilMs: 'number', deliveryLog: 'number' },
    reply: { batches: 'number', events: 'number' },
  },
} as const satisfies Record<string, Contract>;
