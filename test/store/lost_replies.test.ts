import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { afterEach, beforeEach, describe, type TestContext, test } from 'node:test';
import { publishingParts } from '../../harness/publishing.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { jobName } from '../../harness/scripts/names.ts';
import { EMPTY } from '../../harness/scripts/state.ts';
import type { Grant } from '../../src/delivering/grant.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { idempotency } from '../../src/publishing/idempotency.ts';
import type { Publication } from '../../src/publishing/publication.ts';
import { Publisher } from '../../src/publishing/publisher.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { CutLine, randomCuts } from './cut_line.ts';

const LINES = 6;
const ROUNDS = Number(process.env.CUT_ROUNDS ?? 12);

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const queueOn = (line: CutLine) =>
  new Queue(line.store, 'main', { laneLimit: 100, laneLimitMax: 100, leaseMs: 60_000, deliveryLog: 1000 });
const publisherOn = (line: CutLine) => new Publisher(publishingParts(new Partitions(line.store)));

/** Does the work on several connections at once, each cut at random. */
async function onCutLines(
  t: TestContext,
  work: (line: CutLine, name: string) => Promise<void>,
): Promise<void> {
  const seed = randomInt(1_000_000);
  t.diagnostic(`seed ${seed}`);
  const socket = redis.redis.socketPath ?? '';
  const open = (_: unknown, i: number) => CutLine.open(t, socket, randomCuts(seed + i));
  const lines = await Promise.all(Array.from({ length: LINES }, open));
  await Promise.all(lines.map((line, i) => work(line, `line${i}`)));
}

async function storedEvents(): Promise<string[]> {
  return Object.values((await bus.state()).batches).flatMap(({ events }) => events);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

describe('publishing on connections that are cut at random', () => {
  const publication = (event: string): Publication => ({
    topic: 'widgets',
    client: 'shop',
    events: [event],
  });
  const keyed = (event: string): Publication => ({
    ...publication(event),
    idempotency: idempotency('shop', event, 'widgets', event),
  });
  /** Returns three items. Published at once, they go in one call. */
  const threeOf = (round: number, name: string) => ['x', 'y', 'z'].map((each) => `${name} ${round} ${each}`);

  test('stores each attempt at most once, and every answered one', async (t) => {
    await bus.subscribe('alice');
    const [accepted, unknown]: [string[], string[]] = [[], []];
    await onCutLines(t, async (line, name) => {
      const publisher = publisherOn(line);
      for (let round = 0; round < ROUNDS; round++) {
        const events = threeOf(round, name);
        const answer = await line.once(() =>
          Promise.all(events.map((event) => publisher.publish(publication(event)))),
        );
        (answer === 'lost' ? unknown : accepted).push(...events);
      }
    });
    const stored = await storedEvents();
    const there = new Set(stored);
    assert.equal(there.size, stored.length, 'none is there twice');
    assert.deepEqual(
      accepted.filter((event) => !there.has(event)),
      [],
    );
    const surprises = unknown.filter((event) => there.has(event)).length;
    assert.ok(surprises > 0 && surprises < unknown.length, 'some requests were lost, and some replies');
  });

  test('and repeating with an idempotency key until there is an answer stores each event once', async (t) => {
    await bus.subscribe('alice');
    const published: string[] = [];
    let repeated = 0;
    await onCutLines(t, async (line, name) => {
      const publisher = publisherOn(line);
      for (let round = 0; round < ROUNDS; round++) {
        const events = threeOf(round, name);
        const { answer } = await line.insist(() =>
          Promise.all(events.map((event) => publisher.publish(keyed(event)))),
        );
        repeated += answer.filter((outcome) => outcome === 'repeated').length;
        published.push(...events);
      }
    });
    assert.deepEqual((await storedEvents()).sort(), published.sort());
    assert.equal(await redis.store.redis.hget('topic:widgets', 'counter'), String(published.length));
    assert.ok(repeated > 0, 'some replies were lost');
  });
});

describe('working on connections that are cut', () => {
  test('a worker that acquires again gets the job that it holds, and the attempt is counted once', async (t) => {
    const line = await CutLine.open(t, redis.redis.socketPath ?? '', (['reply', 'reply'] as const).values());
    await bus.subscribe('alice', { max: 1 });
    await bus.publish('a', 'widgets', ['e1', 'e2']);
    const { answer, calls } = await line.insist(() => queueOn(line).acquire(['w1']));
    assert.equal(calls, 3);
    assert.deepEqual(
      answer.grants.map(({ worker, batch }) => [worker, batch?.attempts]),
      [['w1', 1]],
    );
    const { main, batches } = await bus.state();
    assert.deepEqual([main.pending, main.instant], [{ w1: ['a1'] }, ['a2']]);
    assert.deepEqual([batches.a1?.attempts, batches.a2?.attempts], [1, 0]);
  });

  test('at random: each job has one worker at a time, one attempt for each time it was given back, and ends once', async (t) => {
    const jobs = LINES * ROUNDS;
    await bus.subscribe('alice', { max: 1 });
    await bus.publish(
      'a',
      'widgets',
      Array.from({ length: jobs }, (_, n) => `e${n}`),
    );
    const held = new Set<string>();
    const done = new Set<string>();
    const givenBack = new Map<string, number>();
    let refused = 0;

    /** Acks a job, but gives every third back. Notes that before the call: others may get the job before it answers. */
    const settle = async (line: CutLine, grant: Grant, job: string, nth: number) => {
      const queue = queueOn(line);
      held.delete(job);
      if (nth % 3 > 0) {
        done.add(job);
        const { answer, calls } = await line.insist(() => queue.ack({ grant, heal: 0, tookMs: 5 }));
        return { taken: answer.held, calls };
      }
      givenBack.set(job, (givenBack.get(job) ?? 0) + 1);
      const attempt = { atMs: grant.atMs, durationMs: 1, reason: 'HTTP 500' };
      const back = { delayMs: 0, damage: 0, throttleMs: 0, attempt };
      const { answer, calls } = await line.insist(() => queue.nack(grant, back));
      return { taken: answer.held, calls };
    };
    await onCutLines(t, async (line, worker) => {
      for (let nth = 1; done.size < jobs; nth++) {
        const { answer } = await line.insist(() => queueOn(line).acquire([worker]));
        const [grant] = answer.grants;
        if (!grant) continue;
        const job = jobName(grant.packed);
        assert.ok(!held.has(job) && !done.has(job), `${job} is nobody else's`);
        assert.equal(grant.batch?.attempts, 1 + (givenBack.get(job) ?? 0));
        held.add(job);
        await new Promise(setImmediate);
        const { taken, calls } = await settle(line, grant, job, nth);
        assert.ok(taken || calls > 1, 'refused only where it was taken before');
        if (!taken) refused++;
      }
      await line.insist(() => queueOn(line).retire([worker]));
    });
    assert.deepEqual(await bus.state(), EMPTY);
    assert.equal((await bus.subscriber('alice')).sent, String(jobs + 1), 'with the one from before');
    assert.ok(refused > 0, 'some replies were lost');
  });
});
