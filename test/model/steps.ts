import fc from 'fast-check';
import type { WorkerKind } from '../../src/delivering/queue.ts';
import * as auxJobs from './aux_jobs.ts';
import * as bulks from './bulks.ts';
import * as delaying from './delaying.ts';
import * as delivering from './delivering.ts';
import * as publishing from './publishing.ts';
import { step } from './step.ts';
import * as upkeep from './upkeep.ts';

/** The regular workers: so many that a lane may hold three, a quarter of them. */
export const WORKERS = Array.from({ length: 14 }, (_, i) => `w${i + 1}`);
/** Each is the only worker of a quarantine. */
export const QUARANTINE = ['q1', 'q2'];
const KINDS: WorkerKind[] = ['regular', 'regular', 'regular', 'regular', 'regular', 'spare'];
const TOKENS = ['alice', 'bob', 'carol', 'dave', 'erin'];
const TOPICS = ['widgets', 'gadgets'];

const n = fc.nat(100);
const few = fc.integer({ min: 1, max: 3 });
const yes = fc.boolean();
const token = fc.constantFrom(...TOKENS);
const topic = fc.constantFrom(...TOPICS);
const workers = fc.subarray(WORKERS, { minLength: 1 });
const pauser = fc.constantFrom<'operator' | 'subscriber'>('operator', 'subscriber');
const auxWorker = fc.constantFrom('x1', 'x2');
const seldom = fc.oneof(
  { weight: 5, arbitrary: fc.constant(false) },
  { weight: 1, arbitrary: fc.constant(true) },
);
const often = seldom.map((no) => !no);
/** The caller: root if empty, or a client. */
const client = fc.constantFrom('', '', ...TOKENS);
const how = fc.constantFrom<('ack' | 'nack' | 'bury')[]>('ack', 'nack', 'bury');

const wishClient = fc.oneof(
  { weight: 20, arbitrary: fc.constant('shop') },
  { weight: 1, arbitrary: fc.constant('mill') },
);
const wishKey = fc.oneof(
  { weight: 5, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.constantFrom('k1', 'k2', 'k3', 'k4') },
);
const wish = fc.record({
  topic,
  client: wishClient,
  count: fc.integer({ min: 1, max: 5 }),
  key: wishKey,
});
const delayWish = fc.record({
  topic,
  client: wishClient,
  waits: fc.array(fc.constantFrom(undefined, 0, 0, 1, 3), { minLength: 1, maxLength: 5 }),
  repeats: seldom,
  key: wishKey,
});
const request = fc.record({
  token,
  topics: fc.subarray(TOPICS),
  max: fc.integer({ min: 1, max: 4 }),
  timeout: fc.constantFrom(0, 0, 120_000),
  ordered: yes,
  inFlight: fc.constantFrom(undefined, 1, 3),
  proven: seldom,
});
const bulkOwner = fc.constantFrom('root', 'alice');
const bulkWish = fc.record({
  act: fc.constantFrom<('retry' | 'purge')[]>('retry', 'retry', 'purge'),
  queues: fc.constantFrom<(string[] | undefined)[]>(undefined, undefined, ['alice', 'bob'], ['bob', 'alice']),
  reason: fc.constantFrom<('max_attempts' | 'killed_worker' | undefined)[]>(
    undefined,
    undefined,
    'max_attempts',
    'killed_worker',
  ),
});
const fault = fc.record({ delayed: yes, throttled: often, noted: yes, pause: seldom });

/** Any call of the bus. Frequent calls have larger weights, so that sequences reach many states. */
const anyStep = [
  step(6, publishing.publish, fc.array(wish, { minLength: 1, maxLength: 3 })),
  step(3, delaying.delay, delayWish),
  step(3, delaying.publishDelayed),
  step(1, delaying.deleteDelayed, n, fc.constantFrom('', 'shop', 'mill')),
  step(1, delaying.dropDelayed, topic, few),
  step(3, publishing.subscribe, request),
  step(1, publishing.pause, token, pauser),
  step(1, publishing.resume, token, pauser),
  step(1, publishing.unsubscribe, token, topic),
  step(1, publishing.leave, token),
  step(1, publishing.giveTopic, topic, fc.constantFrom('shop', 'shop', 'mill')),
  step(1, publishing.removeTopic, topic),
  step(12, delivering.acquire, workers, fc.constantFrom(0, 0, 1, 2), fc.constantFrom(...KINDS)),
  step(2, delivering.acquire, fc.constant(QUARANTINE), fc.constant(0), fc.constant<WorkerKind>('quarantine')),
  step(1, delivering.condemn, fc.constantFrom(...QUARANTINE)),
  step(9, delivering.ack, n, seldom),
  step(7, delivering.nack, n, fault),
  step(3, delivering.bury, n, yes),
  step(2, delivering.settleLate, n, how),
  step(1, delivering.settleExpired, n, how),
  step(4, delivering.heartbeat, workers),
  step(1, auxJobs.enqueue, fc.constantFrom('scrub', 'monitor')),
  step(1, auxJobs.acquireAux, auxWorker),
  step(1, auxJobs.settleAux, auxWorker, fc.constantFrom(undefined, 0, 150_000)),
  step(7, upkeep.pass, fc.constantFrom(1, 1, 1, 2, 3)),
  step(8, upkeep.schedule, fc.integer({ min: 1, max: 10 })),
  step(2, upkeep.runJob, n),
  step(3, upkeep.retryBatch, n),
  step(2, upkeep.buryBatch, n),
  step(1, upkeep.sendTest, token),
  step(2, upkeep.scrub, seldom),
  step(1, upkeep.retire, workers),
  step(1, upkeep.autodrop, few, fc.constantFrom(undefined, undefined, ...TOKENS)),
  step(1, upkeep.dropQueue, token, few),
  step(1, upkeep.revive, n, client),
  step(1, upkeep.purge, n, client),
  step(1, bulks.beginBulk, bulkOwner, bulkWish),
  step(4, bulks.stepBulk, bulkOwner, few, seldom),
  step(2, bulks.confirmBulk, bulkOwner, seldom),
  step(1, bulks.cancelBulk, bulkOwner, yes),
  step(1, upkeep.sweep),
  step(4, upkeep.replicate),
  step(1, upkeep.failOver),
];

/** More of the calls that lead to many dead letters, and of those that retry or purge them all. */
const bulkSteps = [
  step(20, publishing.publish, fc.array(wish, { minLength: 1, maxLength: 3 })),
  step(20, delivering.acquire, workers, fc.constant(0), fc.constant<WorkerKind>('regular')),
  step(50, delivering.bury, n, fc.constant(false)),
  step(8, bulks.beginBulk, bulkOwner, bulkWish),
  step(10, bulks.stepBulk, bulkOwner, few, seldom),
  step(5, bulks.confirmBulk, bulkOwner, seldom),
  step(10, bulks.finishBulk, bulkOwner, few),
  step(4, publishing.leave, token),
];

/** More of the calls that a lost master may have done, and more failovers. */
const failOverSteps = [
  step(10, publishing.publish, fc.array(wish, { minLength: 1, maxLength: 3 })),
  step(10, publishing.subscribe, request),
  step(20, delivering.acquire, workers, fc.constantFrom(0, 1), fc.constant<WorkerKind>('regular')),
  step(20, delivering.ack, n, fc.constant(false)),
  step(10, delivering.nack, n, fault),
  step(10, upkeep.replicate),
  step(10, upkeep.failOver),
];

/** The steps of a sequence: most sequences have any steps, others more of some. */
export const STEPS = [anyStep, anyStep, [...anyStep, ...bulkSteps], [...anyStep, ...failOverSteps]].map(
  (steps) => fc.oneof(...steps),
);
