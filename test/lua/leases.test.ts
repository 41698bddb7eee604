import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const LEASE_MS = 30_000;

/** Makes a batch `a1` of two events that w1 delivers, and a batch `b1` that waits. Resolves with the lease of `a1`. */
async function delivering(): Promise<number> {
  await bus.subscribe('alice', { max: 2 });
  await bus.publish('a', 'widgets', ['e1', 'e2']);
  await bus.publish('b', 'widgets', ['e3', 'e4']);
  await bus.acquire(['w1']);
  return leaseOf('w1');
}

const leaseOf = (worker: string) => bus.leases.get(worker) ?? assert.fail(`${worker} never had a lease`);
const heard = async (worker: string) => Number(await bus.store.redis.hget('workers', worker));

/** Makes a worker last heard of `ms` ago, by Redis's clock. */
async function silentFor(worker: string, ms: number): Promise<void> {
  await bus.store.redis.hset('workers', worker, (await bus.nowMs()) - ms);
}

type Lease = { lease?: number; leaseMs?: number };
const SETTLE: Record<string, (worker: string, job: string, lease: Lease) => Promise<boolean>> = {
  ack: async (worker, job, lease) => (await bus.ack(worker, job, lease)).held,
  nack: (worker, job, lease) => bus.nack(worker, job, { damage: 2, throttleMs: 50, attempt: '{}', ...lease }),
  'nack with a delay': (worker, job, lease) => bus.nack(worker, job, { delayMs: 50, damage: 2, ...lease }),
  'nack that pauses': (worker, job, lease) => bus.nack(worker, job, { pause: 1, ...lease }),
  bury: async (worker, job, lease) => (await bus.bury(worker, job, { damage: 2, ...lease })).held,
};

async function changesNothing(call: () => Promise<unknown>, expected: unknown): Promise<void> {
  const before = await snapshot(bus.store);
  assert.deepEqual(await call(), expected);
  assert.deepEqual(await snapshot(bus.store), before);
}

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

for (const [what, settle] of Object.entries(SETTLE)) {
  describe(`${what} changes nothing`, () => {
    test('under the number of another lease', async () => {
      const lease = await delivering();
      await changesNothing(() => settle('w1', 'a1', { lease: lease - 1 }), false);
      await changesNothing(() => settle('w1', 'a1', { lease: lease + 1 }), false);
    });

    test('under an expired lease that no scrub has found', async () => {
      await delivering();
      await silentFor('w1', LEASE_MS + 5);
      await changesNothing(() => settle('w1', 'a1', { leaseMs: LEASE_MS }), false);
      await silentFor('w1', LEASE_MS - 5000);
      assert.equal(await settle('w1', 'a1', { leaseMs: LEASE_MS }), true, 'it was this that refused it');
    });

    test('from an unknown worker', async () => {
      await delivering();
      await bus.store.redis.hdel('workers', 'w1');
      await changesNothing(() => settle('w1', 'a1', {}), false);
    });

    test('when it arrives late, and the same worker holds the same job again', async () => {
      const lease = await delivering();
      await bus.nack('w1', 'a1');
      await bus.acquire(['w1']);
      assert.deepEqual((await bus.state()).main.pending, { w1: ['a1'] });
      await changesNothing(() => settle('w1', 'a1', { lease }), false);
      assert.equal(await settle('w1', 'a1', {}), true);
    });

    test('a second time, after the reply of the first was lost', async () => {
      const lease = await delivering();
      assert.equal(await settle('w1', 'a1', {}), true);
      await changesNothing(() => settle('w1', 'a1', { lease }), false);
    });

    test('after the job was scrubbed, and when another worker holds it', async () => {
      await delivering();
      await bus.scrub(-1);
      await changesNothing(() => settle('w1', 'a1', {}), false);
      await bus.acquire(['w2']);
      await changesNothing(() => settle('w1', 'a1', {}), false);
      await changesNothing(() => settle('w1', 'a1', { lease: leaseOf('w2') }), false);
      assert.equal(await settle('w2', 'a1', {}), true);
    });
  });
}

describe('a lease', () => {
  test('has the time (µs) at which it was given as its number', async () => {
    const fromMs = await bus.nowMs();
    const lease = await delivering();
    assert.ok(fromMs * 1000 <= lease && lease < ((await bus.nowMs()) + 1) * 1000, `${lease}`);
  });

  test('has a number that was never used before, also if the clock of Redis is set back', async () => {
    const startMs = await bus.nowMs();
    const future = (startMs + 60_000) * 1000;
    await bus.store.redis.set('leases:last', future);
    const first = await delivering();
    assert.equal(first, future + 1);
    await bus.acquire(['w2']);
    const second = leaseOf('w2');
    await bus.ack('w1', 'a1');
    await bus.publish('c', 'widgets', ['e5', 'e6']);
    await bus.acquire(['w1']);
    const passedUs = ((await bus.nowMs()) + 1 - startMs) * 1000;
    assert.ok(first < second && second < leaseOf('w1'), `${first}, ${second}, ${leaseOf('w1')}`);
    assert.ok(leaseOf('w1') <= future + passedUs, 'the numbers grow no faster than the clock');
    const expiresMs = await bus.store.redis.pttl('leases:ahead');
    assert.ok(expiresMs > 50_000 && expiresMs <= 60_000 + passedUs / 1000, `${expiresMs}`);
  });

  test('has a number that grows at half the pace of the clock until the clock has caught up', async () => {
    const startMs = await bus.nowMs();
    // The newest number was 60 s ahead of the clock, 50 s ago.
    await bus.store.redis.set('leases:last', (startMs + 10_000) * 1000);
    await bus.store.redis.set('leases:ahead', 60_000_000);
    const aheadUs = (await delivering()) - startMs * 1000;
    const passedUs = ((await bus.nowMs()) + 1 - startMs) * 1000;
    assert.ok(aheadUs >= 35_000_000 && aheadUs <= 35_000_000 + passedUs, `${aheadUs}`);
    // The clock has caught up.
    await bus.store.redis.set('leases:last', startMs * 1000);
    await bus.acquire(['w2']);
    assert.ok(leaseOf('w2') <= ((await bus.nowMs()) + 1) * 1000, `${leaseOf('w2')}`);
  });

  test('continues when its worker acquires again, because a reply was lost or a call was late', async () => {
    const given = await delivering();
    const { grants } = await bus.acquire(['w1']);
    assert.deepEqual([grants[0]?.job, grants[0]?.batch?.[2]], ['a1', '1']);
    assert.equal(leaseOf('w1'), given);
    assert.equal((await bus.ack('w1', 'a1', { lease: given })).held, true);
  });

  test('that has expired is replaced by a new one when its worker acquires again', async () => {
    const lost = await delivering();
    await bus.acquire(['w1'], { leaseMs: -1 });
    assert.ok(leaseOf('w1') > lost);
    await changesNothing(async () => (await bus.ack('w1', 'a1', { lease: lost })).held, false);
    assert.equal((await bus.ack('w1', 'a1')).held, true);
  });

  test('ends with the job', async () => {
    await delivering();
    await bus.acquire(['w2']);
    assert.deepEqual((await bus.store.redis.hkeys('leases')).sort(), ['w1', 'w2']);
    await bus.ack('w1', 'a1');
    await bus.nack('w2', 'b1');
    assert.deepEqual(await bus.store.redis.hgetall('leases'), {});
  });

  test('ends with a scrub', async () => {
    await delivering();
    await bus.enqueue('monitor');
    await bus.acquire(['x1'], { q: 'aux' });
    await bus.scrub(-1);
    assert.deepEqual(await bus.store.redis.hgetall('leases'), {});
  });

  test('of a periodic job ends when its successor takes the job over', async () => {
    await bus.enqueue('scrub');
    await bus.acquire(['x1'], { q: 'aux' });
    await silentFor('x1', LEASE_MS + 5);
    assert.equal(await bus.enqueue('scrub', LEASE_MS), true);
    assert.deepEqual(await bus.store.redis.hgetall('leases'), {});
    assert.equal((await bus.ack('x1', 'scrub', { q: 'aux', leaseMs: 3_600_000 })).held, false);
  });
});

describe('a heartbeat', () => {
  test('renews leases', async () => {
    await delivering();
    await silentFor('w1', LEASE_MS - 5000);
    const earliest = await bus.nowMs();
    assert.deepEqual(await bus.heartbeat(['w1'], { leaseMs: LEASE_MS }), []);
    const at = await heard('w1');
    assert.ok(earliest <= at && at <= (await bus.nowMs()));
    assert.equal((await bus.ack('w1', 'a1')).held, true);
  });

  test('does not revive an expired lease, and returns it as lost', async () => {
    await delivering();
    await silentFor('w1', LEASE_MS + 5);
    await changesNothing(() => bus.heartbeat(['w1'], { leaseMs: LEASE_MS }), ['w1']);
    assert.deepEqual(await bus.scrub(LEASE_MS), { workers: 1, jobs: [1, 0] });
  });

  test('returns the lost leases, and renews the others', async () => {
    await delivering();
    await bus.acquire(['w2', 'w3']);
    await bus.ack('w1', 'a1');
    await silentFor('w2', 20_000);
    const before = await heard('w2');
    assert.deepEqual(await bus.heartbeat(['w1', 'w2', 'w9']), ['w1', 'w9']);
    assert.ok((await heard('w2')) > before);
  });

  test('under an old number renews nothing, although the worker holds the job by another lease', async () => {
    const old = await delivering();
    await bus.nack('w1', 'a1');
    await bus.acquire(['w1']);
    await changesNothing(() => bus.heartbeat(['w1'], { lease: old }), ['w1']);
    assert.deepEqual(await bus.heartbeat(['w1']), []);
  });
});
