import type { Answer } from './sample_receiver.ts';

/** A subscriber of the demo that is not well, so that the console has something to show. */
interface Patient {
  name: string;
  /** Path of its callback at the receiver of the demo. */
  path: string;
  answer: Answer;
  subscription: Record<string, unknown>;
  /** True if it pauses its deliveries. */
  isPaused?: true;
  /** The line that the demo prints about it. */
  story: string;
}

export const PATIENTS: readonly Patient[] = [
  {
    name: 'demo_slow',
    path: '/slow',
    answer: { status: 204, delayMs: 2500 },
    subscription: { topics: ['demo_orders'], timeout: 1000, max: 5 },
    story: 'takes 2.5 s for each batch',
  },
  {
    name: 'demo_failing',
    path: '/failing',
    answer: { status: 500, delayMs: 0, text: 'no database: connection refused' },
    subscription: { topics: ['demo_customers'], timeout: 10_000, max: 100, max_attempts: 2 },
    story: 'answers 500, so its batches become dead letters after two attempts',
  },
  {
    name: 'demo_paused',
    path: '/paused',
    answer: { status: 204, delayMs: 0 },
    subscription: { topics: ['demo_customers'], timeout: 1000, max: 100 },
    isPaused: true,
    story: 'has paused itself, so its events wait',
  },
];

/** A join of the demo's subscriber. It publishes an event when a customer has changed and has ordered three times. */
export const JOIN = {
  name: 'demo_regulars',
  body: {
    sources: [{ topic: 'demo_orders', count: 3 }, { topic: 'demo_customers' }],
    by: 'data.customer',
    then: { topic: 'demo_regular_customers', type: 'update' },
    within: 600_000,
  },
};

/** A trigger of the demo's publisher: one event a minute. */
export const TRIGGER = {
  name: 'demo_minutely',
  body: {
    topic: 'demo_reports',
    event: { type: 'noop', url: 'https://shop.example.com/demo_reports/minutely' },
    schedule: { cron: '* * * * *' },
  },
};

/** All topics of the demo. */
export const TOPICS: readonly string[] = [
  'demo_orders',
  'demo_customers',
  TRIGGER.body.topic,
  JOIN.body.then.topic,
];
