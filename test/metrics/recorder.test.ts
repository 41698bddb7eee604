import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import type { Tags } from '../../src/metrics/counter_hash.ts';
import type { CounterName } from '../../src/metrics/families.ts';
import { bucketOf, cumulate } from '../../src/metrics/histogram.ts';
import { Recorder } from '../../src/metrics/recorder.ts';

let counted: [CounterName, Tags, number][] = [];
const recorder = new Recorder({
  increment: (name, tags, by = 1) => {
    if (by > 0) counted.push([name, tags, by]);
  },
});

beforeEach(() => {
  counted = [];
});

test('a publication is counted by its events and their bytes', () => {
  recorder.published('widgets', 2, 123);
  assert.deepEqual(counted, [
    ['events.published', { topic: 'widgets' }, 2],
    ['events.bytes', { topic: 'widgets' }, 123],
  ]);
});

test('events that enter and leave a queue are counted', () => {
  recorder.added('a', 3);
  recorder.removed('a', 2);
  recorder.autodropped('a', 1);
  assert.deepEqual(counted, [
    ['events.added', { queue: 'a' }, 3],
    ['events.removed', { queue: 'a' }, 2],
    ['events.autodropped', { queue: 'a' }, 1],
  ]);
});

test('delayed events are counted by how late they are, and those that were dropped by topic', () => {
  recorder.publishedLate([0, 1, 7, 1]);
  recorder.publishedLate([0]);
  recorder.delayedDropped('widgets', 3);
  assert.deepEqual(counted, [
    ['delayed.lateness.bucket', { le: '0.002' }, 3],
    ['delayed.lateness.bucket', { le: '0.01' }, 1],
    ['delayed.lateness.sum', {}, 9],
    ['delayed.lateness.bucket', { le: '0.002' }, 1],
    ['delayed.dropped', { topic: 'widgets' }, 3],
  ]);
});

test('a dead letter is counted, with its events, by reason', () => {
  recorder.buried('a', 'max_age', 7);
  assert.deepEqual(counted, [
    ['events.dead_lettered', { queue: 'a', reason: 'max_age' }, 7],
    ['batches.dead_lettered', { queue: 'a', reason: 'max_age' }, 1],
  ]);
});

test('the first attempt at a batch is counted with its latency', () => {
  recorder.firstAttempted('a', 512);
  assert.deepEqual(counted, [
    ['latency.batches.count', { queue: 'a' }, 1],
    ['latency.batches.first_attempt', { queue: 'a' }, 512],
  ]);
});

test('a successful delivery is counted with its duration and its latency', () => {
  recorder.delivered({ subscriber: 'a', status: 'success', events: 7, durationMs: 20, latencyMs: 620 });
  const tags = { queue: 'a', status: 'success' };
  assert.deepEqual(counted, [
    ['delivery.events', tags, 7],
    ['delivery.batches', tags, 1],
    ['delivery.time', tags, 20],
    ['delivery.time2', tags, 400],
    ['delivery.duration.bucket', { le: '0.025', status: 'success' }, 1],
    ['delivery.duration.sum', { status: 'success' }, 20],
    ['latency.batches.last_attempt', { queue: 'a' }, 620],
    ['latency.end_to_end.bucket', { le: '0.75' }, 1],
    ['latency.end_to_end.sum', {}, 620],
  ]);
});

test('a failed delivery is counted with its duration only', () => {
  recorder.delivered({
    subscriber: 'a',
    status: 'failure',
    events: 7,
    durationMs: 50_000,
    latencyMs: 60_000,
  });
  const names = counted.map(([name]) => name);
  assert.ok(names.includes('delivery.time2') && !names.some((name) => name.startsWith('latency.')));
  assert.ok(counted.some(([, { le, status }]) => le === '+Inf' && status === 'failure'));
});

test('a scrub counts jobs, by queue, and workers', () => {
  recorder.scrubbed({ main: 2, aux: 0, workers: 3 });
  assert.deepEqual(counted, [
    ['jobs.scrubbed', { queue: 'main' }, 2],
    ['workers.scrubbed', {}, 3],
  ]);
});

test('findings of a sweep are counted by kind', () => {
  recorder.swept('lane_stuck');
  assert.deepEqual(counted, [['sweep.findings', { kind: 'lane_stuck' }, 1]]);
});

test('failed authentications are counted by reason, and those answered 429', () => {
  recorder.authenticationFailed('wrong_secret');
  recorder.authenticationSlowed();
  assert.deepEqual(counted, [
    ['authentication.failed', { reason: 'wrong_secret' }, 1],
    ['authentication.slowed', {}, 1],
  ]);
});

test('a refused call is counted by the code of its answer', () => {
  recorder.callRefused('overloaded');
  assert.deepEqual(counted, [['calls.refused', { code: 'overloaded' }, 1]]);
});

test('starts and stops of processes are counted', () => {
  recorder.processStarted('web');
  recorder.processStopped('worker');
  assert.deepEqual(counted, [
    ['process', { status: 'start', type: 'web' }, 1],
    ['process', { status: 'stop', type: 'worker' }, 1],
  ]);
});

describe('a histogram', () => {
  test('counts a value equal to a bound in the bucket below it', () => {
    const bounds = [0.01, 1];
    const les = [-5, 0, 10, 10.1, 1000, 1001].map((ms) => bucketOf(bounds, ms));
    assert.deepEqual(les, ['0.01', '0.01', '0.01', '1', '1', '+Inf']);
  });

  test('is shown with cumulative buckets, which include the bounds of other releases', () => {
    const counted = new Map([
      ['0.01', 1],
      ['0.5', 10],
      ['1', 100],
      ['60', 1000],
      ['+Inf', 10_000],
    ]);
    assert.deepEqual(cumulate(counted, [0.01, 1, 2]), [
      ['0.01', 1],
      ['1', 111],
      ['2', 111],
      ['+Inf', 11_111],
    ]);
  });
});
