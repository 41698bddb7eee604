import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Redis } from 'ioredis';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import type { Keyspace } from '../../src/store/keys.ts';
import { TestStore } from '../redis/store.ts';
import { Bus } from './bus.ts';
import { assertConsistent } from './invariants.ts';
import { longName, packNamed, shortName } from './names.ts';
import { assertNothingToSweep } from './sweep.ts';

export const redis = new TestStore();
export const bus = new Bus(() => redis.store);
export const HOUR_MS = 3_600_000;
const laneLimit = 2;

/** Some of the jobs and batches that `fill` makes. */
export const [A3, B1] = [packNamed('a3'), packNamed('b1')];
export const [a3, b1, c1] = [longName('a3'), longName('b1'), longName('c1')];

/**
 * Fills Redis with a batch or a job in every state. alice: a1, a2 in flight with w1, w2; a3, a4 wait in the lane. bob:
 * b1 is open, scheduled. carol: c1 is a dead letter, cc1 is instant. dave, new: d1 in flight with w3, d2 waits in the
 * lane. erin has accepted e1. aux: scrub is instant, x1 has monitor.
 */
async function fill(): Promise<void> {
  await bus.subscribe('alice', { max: 1 });
  await bus.subscribe('bob', { topics: ['gadgets'], timeout: HOUR_MS });
  await bus.subscribe('carol', { topics: ['gizmos'], max: 2 });
  await bus.subscribe('dave', { topics: ['gears'], max: 1, proven: false });
  await bus.subscribe('erin', { topics: ['gems'], max: 1 });
  await bus.publish('e', 'gems', ['e0']);
  await bus.acquire(['w1']);
  await bus.ack('w1', 'e1');
  await bus.publish('c', 'gizmos', ['e1', 'e2']);
  await bus.acquire(['w1']);
  await bus.bury('w1', 'c1', { attempt: '{}' });
  await bus.publish('a', 'widgets', ['e3', 'e4', 'e5', 'e6']);
  await bus.publish('d', 'gears', ['e7', 'e8']);
  await bus.acquire(['w1', 'w2', 'w3', 'w4'], { laneLimit });
  await bus.publish('b', 'gadgets', ['e9']);
  await bus.publish('cc', 'gizmos', ['e10', 'e11']);
  await bus.enqueue('monitor');
  await bus.acquire(['x1'], { q: 'aux' });
  await bus.enqueue('scrub');
}

export interface Broken {
  redis: Redis;
  keys: Keyspace;
}

/** Kinds of findings that tests have provoked. */
export const provokedKinds = new Set<string>();

export async function found(): Promise<string[]> {
  const findings = await sweep(redis.store);
  for (const { kind } of findings) provokedKinds.add(kind);
  return findings.map(({ kind, name }) => `${kind} ${shortName(name)}`).sort();
}

/**
 * Tests that a sweep finds exactly what `how` breaks, that everything is consistent afterwards, and that the
 * next sweep finds nothing.
 */
export function breaks(what: string, how: (broken: Broken) => Promise<unknown>, ...expected: string[]): void {
  test(what, async () => {
    await how(redis.store);
    assert.deepEqual(await found(), expected.sort());
    await assertConsistent(redis.store);
    await assertNothingToSweep(redis.store);
  });
}

beforeEach(async () => {
  await redis.flush();
  await fill();
});
