import assert from 'node:assert/strict';
import { connect as connectSocket, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { PrivateCluster } from '../../harness/redis/private_cluster.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import { measureShortage } from '../../src/maintenance/shortage.ts';
import { connect } from '../../src/store/connection.ts';
import { infoNumber, readMemory } from '../../src/store/memory.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { autodropScene, MB, SETTINGS } from './autodrop_scene.ts';

const { redis, bus, memory, fill, run } = autodropScene();

/** Fills Redis up to `mb` MB with keys that are not the bus's own. */
async function fillWithOthers(mb: number): Promise<void> {
  for (let i = 0; (await memory()).used < mb * MB; i++)
    await redis.store.redis.set(`other${i}`, 'x'.repeat(80_000));
}

describe('if other data fills Redis', () => {
  /** Calls `onMeasure` whenever a script call measures batches of a partition. */
  const watched = (partition: Partition, onMeasure: () => void) =>
    Object.create(partition, {
      run: {
        value: (...args: Parameters<Partition['run']>) => {
          if (args[0] === 'measure') onMeasure();
          return partition.run(...args);
        },
      },
    }) as Partition;
  const complaints = (lines: Record<string, unknown>[]) => lines.filter(({ level }) => level === 50);

  test('beyond the high mark, autodrop drops nothing and logs what to do, once', async () => {
    await fillWithOthers(14.1);
    await bus.publish('a', 'widgets', ['e']);
    await redis.store.redis.set('idempotency:x', 'y', 'PX', 60_000);
    const { lines, counted } = await run(undefined, 2);
    assert.deepEqual(counted, {});
    assert.equal((await bus.state()).index.length, 2);
    const [complaint, ...more] = lines;
    assert.deepEqual([complaint?.level, complaint?.expiringKeys, more], [50, 1, []]);
    assert.match(String(complaint?.msg), /Digest nonces.*ROUTEMASTER_IDEMPOTENCY_WINDOW/);
    const bytes = Number(complaint?.droppableBytes);
    assert.ok(bytes > 500 && bytes < 3000, `${bytes} bytes are queued`);
  });

  test('and a measurement of all batches takes long, it is not repeated soon', async (t) => {
    await fillWithOthers(14.1);
    await bus.publish('a', 'widgets', ['e']);
    let [aheadMs, calls] = [0, 0];
    t.mock.method(clock, 'monotonicMs', () => performance.now() + aheadMs);
    const slow = watched(redis.store, () => {
      aheadMs += 1000;
      calls++;
    });
    const callsOf = async (times: number) => {
      calls = 0;
      await run(undefined, times, slow);
      return calls;
    };
    const once = await callsOf(1);
    assert.ok(once > 0);
    assert.equal(await callsOf(2), once);
  });

  test('the jobs of all partitions in this Redis share a measurement of all batches', async () => {
    await fillWithOthers(14.1);
    let calls = 0;
    const counted = (partition: Partition) => watched(partition, () => calls++);
    const [one, other] = [
      counted(redis.store),
      counted(new Partition(redis.store.redis, { prefix: '{1}:' })),
    ];
    const partitions = new Partitions(one, other);
    await bus.publish('a', 'widgets', ['e']);
    const measure = async (...among: Partition[]) => {
      calls = 0;
      const used = await memory();
      const { signal } = new AbortController();
      await Promise.all(among.map((each) => measureShortage(partitions, each, used, signal)));
      return calls;
    };
    const once = await measure(one);
    assert.ok(once > 0);
    assert.equal(await measure(one, other), once);
  });

  test('the log says how much of it waits for other partitions, and that these must take it', async () => {
    await fillWithOthers(14.1);
    const { redis: commands, keys } = redis.store;
    const { lines: alone } = await run();
    assert.deepEqual(
      alone.map(({ msg, outboxBytes }) => [outboxBytes, /partitions/.test(String(msg))]),
      [[0, false]],
    );
    await commands.hset(keys.outboxes_sent(), 'bytes', 1000);
    await commands.hset(keys.outboxes_bytes(), '7', 12_000_000);
    const { lines } = await run();
    assert.deepEqual(
      lines.map(({ level, outboxBytes }) => [level, outboxBytes]),
      [[50, 12_001_000]],
    );
    assert.match(
      String(lines[0]?.msg),
      /outboxBytes are events for other partitions, which are moved when the Redis/,
    );
  });

  test('while autodrop is dropping, it ends when it has dropped what it planned', async () => {
    await fill();
    const queued = (await bus.state()).index.length;
    let steps = 0;
    const filling = Object.create(redis.store, {
      command: { value: (...args: Parameters<Partition['command']>) => redis.store.command(...args) },
      run: {
        value: async (...args: Parameters<Partition['run']>) => {
          if (args[0] === 'autodrop' && ++steps === 2) await fillWithOthers(29);
          return redis.store.run(...args);
        },
      },
    }) as Partition;
    await run(undefined, 1, filling);
    const dropped = queued - (await bus.state()).index.length;
    assert.ok(dropped > 0 && dropped < queued / 5, `${dropped} of ${queued} batches`);
  });

  test('for a moment only, autodrop does nothing', async () => {
    await fillWithOthers(14.1);
    await bus.publish('a', 'widgets', ['e']);
    const running = run();
    await redis.store.redis.del(Array.from({ length: 99 }, (_, i) => `other${i}`));
    assert.deepEqual(await running, { lines: [], counted: {}, removed: {} });
    assert.equal((await bus.state()).index.length, 2);
  });

  describe('for a moment only, and batches fill it too,', () => {
    /** Fills Redis with batches. Returns their number, and a partition that holds large replies at some looks. */
    async function busy(t: TestContext, mb: number, fromLook: number) {
      const { redis: commands } = redis.store;
      await commands.set('other', 'x'.repeat(80_000));
      await fill();
      const used = async () => infoNumber(await commands.info('memory'), 'used_memory');
      const readers: Socket[] = [];
      t.after(() => readers.map((each) => each.destroy()));
      /** Makes replies wait for a client that does not read them. */
      const holdReplies = async () => {
        const before = await used();
        const reader = connectSocket(redis.redis.socketPath ?? '').pause();
        readers.push(reader);
        reader.write('GET other\r\n'.repeat(mb * 13));
        await until(async () => (await used()) > before + (mb - 1) * MB);
      };
      let looks = 0;
      const partition = Object.create(redis.store, {
        command: {
          value: async (...args: Parameters<Partition['command']>) => {
            looks++;
            // Two looks find that a shortage lasts. The fifth decides what to drop, when no records are left.
            if (looks >= fromLook && looks <= 5) await holdReplies();
            return redis.store.command(...args);
          },
        },
        run: { value: (...args: Parameters<Partition['run']>) => redis.store.run(...args) },
      }) as Partition;
      return { partition, queued: (await bus.state()).index.length };
    }

    for (const mb of [8, 16])
      test(`with ${mb} MB, autodrop drops no more and no fewer batches than without`, async (t) => {
        const { partition, queued } = await busy(t, mb, 3);
        const { lines } = await run(undefined, 1, partition);
        assert.deepEqual(complaints(lines), []);
        const dropped = queued - (await bus.state()).index.length;
        assert.ok(dropped > queued / 10 && dropped < queued / 4, `${dropped} of ${queued} batches`);
      });

    test('with 16 MB at each look, autodrop drops batches when it runs again, if not at once', async (t) => {
      const { partition, queued } = await busy(t, 16, 1);
      const { lines } = await run(undefined, 2, partition);
      assert.deepEqual(complaints(lines), []);
      assert.ok((await bus.state()).index.length < queued);
    });
  });

  test('beyond the low mark, batches keep half of the room up to the high mark', async () => {
    await fillWithOthers(13.4);
    await fill();
    const { lines, counted } = await run();
    const left = (await memory()).used / MB;
    assert.ok(Object.keys(counted).length > 0);
    assert.ok(left > 13.4 && left < 13.85, `${left} MB`);
    assert.deepEqual(complaints(lines), []);
  });
});

test('on a cluster, the log says which master is short of memory', async (t) => {
  const cluster = await PrivateCluster.start({ masters: 1, replicas: 0 });
  const connection = connect(cluster.url, capturedLog().log);
  t.after(async () => {
    connection.disconnect();
    await cluster.stop();
  });
  const partitions = Partitions.on(connection, {});
  const { control } = partitions;
  await until(() => control.prepare().then(() => true));
  const there = new Bus(() => control);
  await there.subscribe('alice');
  for (let i = 0; i < 40; i++) await there.publish(nthWord(i), 'widgets', Array(50).fill('x'.repeat(1000)));
  const { used } = await readMemory(control, SETTINGS);
  for (const redisMaxBytes of [used, 1]) {
    const limits = { redisMaxBytes, redisMinFreeBytes: MB };
    const { lines } = await run(undefined, 1, control, 'oldest', partitions, limits);
    assert.match(String(lines[0]?.msg), /^Redis is short of memory/);
    assert.equal(lines[0]?.node, new URL(cluster.nodes[0]?.url ?? '').host);
  }
});
