import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import type { WorkerKind } from '../../src/delivering/queue.ts';
import type { Finding } from '../../src/maintenance/sweep/finding.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';

const redis = new TestStore();
const SWEEPS = 4;
/** Silence after which a worker counts as dead. A busy machine delays calls for less; retired workers stay silent. */
const SILENCE_MS = 300;
/**
 * Publishing pauses above this many queued batches, because a sweep never counts a queue to its end that only grows.
 */
const MAX_BACKLOG = 1000;
const SUBSCRIBERS = ['alice', 'bob', 'carol', 'dave', 'erin'];
const WORKERS = Array.from({ length: 12 }, (_, n) => `w${n}`);

let words = 0;
/** Returns a new word of four letters for the seed of a call. */
function newWord(): string {
  const n = words++;
  return [17_576, 676, 26, 1].map((power) => String.fromCharCode(97 + (Math.floor(n / power) % 26))).join('');
}

const oneOf = <T>(all: readonly T[]): T => all[Math.floor(Math.random() * all.length)] as T;

/** Makes all calls that move batches and jobs at the same time, each again as soon as it is answered. */
class Load {
  readonly #bus = new Bus(() => redis.store);
  readonly #loops: Promise<void>[] = [];
  #over = false;

  async start(): Promise<void> {
    for (const token of SUBSCRIBERS) await this.#subscribe(token);
    for (const topic of ['widgets', 'gadgets']) this.#loop(() => this.#publish(topic));
    for (const worker of WORKERS) this.#loop(() => this.#deliver(worker, 'regular'));
    this.#loop(() => this.#deliver('q1', 'quarantine'));
    this.#loop(() => this.#bus.schedule());
    this.#loop(() => this.#bus.autodrop(3), 20);
    this.#loop(() => this.#bus.scrub(SILENCE_MS), 25);
    this.#loop(() => this.#bus.enqueue('monitor'), 3);
    this.#loop(() => this.#helps(), 3);
    this.#loop(() => this.#revive(), 10);
    this.#loop(() => this.#leaveAndReturn(), 50);
    this.#loop(() => this.#subscribe(oneOf(SUBSCRIBERS)), 30);
  }

  async stop(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#loops);
  }

  #loop(step: () => Promise<unknown>, everyMs = 1): void {
    const run = async () => {
      while (!this.#over) {
        await step();
        await sleep(everyMs);
      }
    };
    this.#loops.push(run());
  }

  #subscribe(token: string): Promise<void> {
    const topics = oneOf([['widgets'], ['gadgets'], ['widgets', 'gadgets']]);
    const wanted = { max: oneOf([1, 3, 10]), timeout: oneOf([0, 5, 50]), ordered: oneOf([0, 1] as const) };
    return this.#bus.subscribe(token, {
      topics,
      ...wanted,
      inFlight: oneOf([1, 4]),
      proven: oneOf([true, false]),
    });
  }

  async #publish(topic: string): Promise<void> {
    const { redis: commands, keys } = redis.store;
    if ((await commands.zcard(keys.batches_index())) > MAX_BACKLOG) return;
    await this.#bus.publish(newWord(), topic, Array(oneOf([1, 5, 20])).fill('event'));
  }

  async #deliver(worker: string, kind: WorkerKind): Promise<void> {
    const { grants } = await this.#bus.acquire([worker], { kind, laneLimit: 3, seed: newWord() });
    const job = grants[0]?.job;
    if (job === undefined) return;
    await sleep(oneOf([0, 1, 5]));
    const how = Math.random();
    if (how < 0.7) await this.#bus.ack(worker, job);
    else if (how < 0.8) await this.#bus.nack(worker, job);
    else if (how < 0.9)
      await this.#bus.nack(worker, job, { delayMs: oneOf([1, 20]), damage: 2, throttleMs: oneOf([0, 5]) });
    else if (how < 0.92) await this.#bus.nack(worker, job, { pause: 1 });
    else if (how < 0.97) await this.#bus.bury(worker, job);
    else await this.#bus.store.run('retire', { q: 'main', workers: [worker] });
  }

  async #helps(): Promise<void> {
    const { grants } = await this.#bus.acquire(['x1'], { q: 'aux' });
    for (const { job } of grants) await this.#bus.ack('x1', job, { q: 'aux' });
  }

  async #revive(): Promise<void> {
    const { redis: commands, keys } = redis.store;
    const [first, second] = await commands.zrange(keys.dead_letters_index(), '0', '1');
    if (first) await redis.store.run('revive', { bids: [first] });
    if (second) await redis.store.run('purge', { deliveryLog: 1000, bids: [second] });
  }

  async #leaveAndReturn(): Promise<void> {
    const token = oneOf(SUBSCRIBERS);
    await redis.store.run('remove_subscriber', { token: token, series: [] });
    await this.#bus.dropQueue(token);
    await this.#subscribe(token);
  }
}

/** Sweeps again and again, on a connection of its own. Resolves with all findings. */
async function sweeps(maxJobs?: number): Promise<Finding[]> {
  const store = await openStore(redis.redis.url);
  const findings: Finding[] = [];
  for (let n = 0; n < SWEEPS; n++) findings.push(...(await sweep(store, maxJobs ? { maxJobs } : {})));
  store.redis.disconnect();
  return findings;
}

test('under full load nothing is ever found', async () => {
  const load = new Load();
  await load.start();
  const findings = await Promise.all([sweeps(), sweeps(20)]);
  await load.stop();
  assert.deepEqual(findings.flat(), []);
  const { redis: commands, keys } = redis.store;
  assert.ok((await commands.zcard(keys.batches_index())) > 0, 'there was something to sweep');
  await assertNothingToSweep(redis.store);
  await assertConsistent(redis.store);
});
