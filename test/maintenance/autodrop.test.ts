import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { PrivateCluster } from '../../harness/redis/private_cluster.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { clock } from '../../src/clock.ts';
import { readAcquired } from '../../src/delivering/acquired.ts';
import { Autodrop, type DropPolicy } from '../../src/maintenance/autodrop.ts';
import { measureShortage } from '../../src/maintenance/shortage.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { connect } from '../../src/store/connection.ts';
import { infoNumber, readMemory } from '../../src/store/memory.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

const MB = 1024 * 1024;
/** The high mark is at 14 MB, the low mark at 13 MB. */
const settings = { redisMaxBytes: 15 * MB, redisMinFreeBytes: MB };
const TOKEN_ONLY = 'legacy--0123456789abcdef';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(async () => {
  await redis.flush();
  // Waits until the memory of the test before is freed, and Redis has noticed that its buffers are.
  await until(async () => (await bufferBytes()) < MB / 4 && (await memory()).used < 3 * MB);
  await new Clients(redis.store, []).register('legacy', TOKEN_ONLY);
  await bus.subscribe('alice', { max: 50 });
  await bus.subscribe(TOKEN_ONLY, { max: 100 });
});

const memory = () => readMemory(redis.store, settings);

/** Redis sums up the buffers of its clients once a second. Until then the memory of the data is only known roughly. */
const buffersAreSummedUp = async () => (await bufferBytes()) < MB;
const bufferBytes = async () => infoNumber(await redis.store.redis.info('memory'), 'mem_clients_normal');

/** Publishes batches of 50 and 100 kB until Redis uses more memory than the high mark, also without buffers. */
async function fill(): Promise<void> {
  for (let i = 0; (await memory()).used <= 15.2 * MB; i++)
    await bus.publish(nthWord(i), 'widgets', Array(50).fill('x'.repeat(1000)));
}

async function run(
  signal = new AbortController().signal,
  times = 1,
  partition = redis.store,
  dropPolicy: DropPolicy = 'oldest',
  partitions = new Partitions(partition),
  limits = settings,
) {
  await until(buffersAreSummedUp);
  const { log, lines } = capturedLog();
  const counted: Record<string, number> = {};
  const removed: Record<string, number> = {};
  const increment = (name: string, { queue = '' }: Record<string, string>, by = 1) => {
    const counts = name === 'events.autodropped' ? counted : removed;
    counts[queue] = (counts[queue] ?? 0) + by;
  };
  const publicNames = new PublicNames(new Clients(redis.store, []), new NameKey(redis.store));
  const job = new Autodrop(
    { partition, partitions, publicNames, recorder: new Recorder({ increment }), log },
    { ...limits, dropPolicy, deliveryLog: 1000 },
  );
  for (let i = 0; i < times; i++) await job.run(signal);
  return { lines, counted, removed };
}

/** Makes workers acquire all ready jobs. */
async function holdAll(): Promise<void> {
  // A lane holds a quarter of the workers at most.
  await bus.addIdleWorkers(2000);
  for (let worker = 0, readyJobs = 1; readyJobs > 0; worker++)
    ({ readyJobs } = readAcquired(
      await redis.store.run('acquire', {
        ...{
          q: 'main',
          leaseMs: 30_000,
          laneLimit: 1000,
          laneLimitMax: 1000,
          slowMs: 1000,
          deliveryLog: 1000,
        },
        finished: [],
        workers: [`w${worker}`],
        kind: 'regular',
        uidSeed: 'cut',
      }),
    ));
}

/** Fills Redis up to `mb` MB with keys that are not the bus's own. */
async function fillWithOthers(mb: number): Promise<void> {
  for (let i = 0; (await memory()).used < mb * MB; i++)
    await redis.store.redis.set(`other${i}`, 'x'.repeat(80_000));
}

describe('the job autodrop', () => {
  test('does nothing below the high mark', async () => {
    await bus.publish('a', 'widgets', ['e']);
    assert.deepEqual(await run(), { lines: [], counted: {}, removed: {} });
    assert.equal((await bus.state()).index.length, 2);
  });

  test('frees memory down to the low mark, and not much further', async () => {
    await fill();
    await run();
    const { used } = await memory();
    // Redis allocates some kB of its own after the job has looked.
    assert.ok(used <= 13.1 * MB && used > 12.7 * MB, `${used / MB} MB are left`);
  });

  test('logs and counts what it dropped by subscriber, without showing credentials', async () => {
    await fill();
    const { lines, counted } = await run();
    const drops = lines.filter(({ msg }) => msg === 'dropped the oldest batches');
    assert.equal(drops.length, 2);
    for (const [token, shown] of [
      ['alice', /^unknown\./],
      [TOKEN_ONLY, /^legacy\.[0-9a-f]{16}$/],
    ] as const) {
      const { ever } = await bus.gaps(token);
      assert.ok(ever);
      const line = drops.find(({ subscriber }) => shown.test(String(subscriber)));
      const { batches, events, fromMs, toMs } = line ?? {};
      assert.deepEqual({ batches, events, fromMs, toMs, topics: { '': events } }, ever);
      assert.equal(counted[token], ever.events);
    }
    assert.ok(!JSON.stringify(lines).includes(TOKEN_ONLY));
  });

  test('deletes records of deliveries first, and drops nothing if that is enough', async () => {
    const { redis: commands, keys } = redis.store;
    for (let i = 0; (await memory()).used <= 10 * MB; i++)
      await bus.publish(nthWord(i), 'widgets', Array(50).fill('x'.repeat(1000)));
    const before = await bus.state();
    const records = Array.from({ length: 1600 }, (_, i) => [
      `r${i}`,
      `${Date.now()}000,1,1,1,null,9,1,200,5`,
    ]);
    for (let count = 1600; (await memory()).used <= 15.2 * MB; count += 1600) {
      await commands.rpush(keys.deliveries_taken('alice'), ...records.flat());
      await commands.zadd(keys.deliveries_logs(), count, 'taken alice');
      await commands.hset(keys.deliveries_total(), 'records', count);
    }
    assert.deepEqual((await run()).counted, {});
    assert.equal(await commands.exists(keys.deliveries_taken('alice'), keys.deliveries_logs()), 0);
    assert.equal(await commands.hget(keys.deliveries_total(), 'records'), '0');
    assert.deepEqual((await bus.state()).queued, before.queued);
  });

  test('drops no batches if dropping dead letters is enough', async () => {
    await fill();
    const batches = (await bus.state()).index.length;
    let letters = 0;
    while (letters < 60) {
      const { grants } = await bus.acquire(['w1', 'w2', 'w3']);
      for (const { worker, job } of grants) await bus.bury(worker, job);
      letters += grants.length;
    }
    await run();
    assert.equal((await bus.state()).index.length, batches - letters);
  });

  test('ends when it is asked to stop', async () => {
    await fill();
    const { counted } = await run(AbortSignal.abort());
    assert.deepEqual(counted, {});
  });

  test('ends when workers hold everything that is left', async () => {
    await fill();
    const { redis: commands, keys } = redis.store;
    for (const job of await commands.zrangeBuffer(keys.jobs_scheduled('main'), '0', '-1'))
      await commands.zadd(keys.jobs_scheduled('main'), 1, job);
    await bus.schedule();
    await holdAll();
    assert.deepEqual((await run()).counted, {});
  });

  test('counts events from queues and events from dead letters separately', async () => {
    await fill();
    const { grants } = await bus.acquire(['w1', 'w2', 'w3']);
    let buried = 0;
    for (const { worker, job } of grants) buried += (await bus.bury(worker, job)).buried;
    const { counted, removed } = await run();
    const all = (counts: Record<string, number>) =>
      Object.values(counts).reduce((sum, each) => sum + each, 0);
    assert.ok(buried > 0 && all(removed) > 0);
    assert.equal(all(counted), buried + all(removed));
  });

  test('drops nothing more while Redis is still freeing memory', async () => {
    await fill();
    let isPlanned = false;
    let looks = 0;
    const freeing = Object.create(redis.store, {
      command: {
        value: async (call: Parameters<Partition['command']>[0]) => {
          const reply = await redis.store.command(call);
          // The first reply that is not a text is the estimate of what subscribers hold. When it comes, records are
          // deleted, but nothing else is dropped yet.
          isPlanned ||= typeof reply !== 'string';
          if (typeof reply !== 'string' || !isPlanned || looks++ === 10) return reply;
          return reply.replace(/lazyfree_pending_objects:\d+/, 'lazyfree_pending_objects:1');
        },
      },
      run: {
        value: (...args: Parameters<Partition['run']>) => {
          if (args[0] !== 'autodrop') return redis.store.run(...args);
          assert.equal(looks, 11, 'drops again only when Redis has nothing left to free');
          stop.abort();
          return redis.store.run(...args);
        },
      },
    }) as Partition;
    const stop = new AbortController();
    assert.notDeepEqual((await run(stop.signal, 1, freeing)).counted, {});
  });
});

describe('dropping is fair', () => {
  const runFairly = () => run(undefined, 1, redis.store, 'fair');

  /** Fills Redis with batches of carol, after an old batch of dave that is as large as one of hers. */
  async function fillByCarol(): Promise<void> {
    await bus.subscribe('dave', { topics: ['gadgets'], max: 50 });
    await bus.publish('dave', 'gadgets', Array(50).fill('x'.repeat(1000)));
    await bus.subscribe('carol', { topics: ['gizmos'], max: 50 });
    for (let i = 0; (await memory()).used <= 15.2 * MB; i++)
      await bus.publish(nthWord(i), 'gizmos', Array(50).fill('x'.repeat(1000)));
  }

  test('who holds most loses the oldest, and who holds little nothing, however old it is', async () => {
    await fillByCarol();
    const before = (await bus.state()).queued;
    const { counted } = await runFairly();
    const { queued } = await bus.state();
    assert.deepEqual(queued.dave, before.dave);
    assert.deepEqual(Object.keys(counted), ['carol']);
    assert.deepEqual(queued.carol, before.carol?.slice(-(queued.carol?.length ?? 0)));
    assert.ok((await memory()).used <= 13 * MB);
  });

  test('also among the partitions of a Redis: the job of each drops its part', async () => {
    const other = new Partition(redis.store.redis, { prefix: '{1}:' });
    const partitions = new Partitions(redis.store, other);
    const elsewhere = new Bus(() => other);
    await bus.subscribe('dave', { topics: ['gadgets'], max: 50 });
    await bus.publish('dave', 'gadgets', Array(50).fill('x'.repeat(1000)));
    await elsewhere.subscribe('carol', { topics: ['gizmos'], max: 50 });
    for (let i = 0; (await memory()).used <= 15.2 * MB; i++)
      await elsewhere.publish(nthWord(i), 'gizmos', Array(50).fill('x'.repeat(1000)));
    const before = await bus.state();
    const { counted, lines } = await run(undefined, 1, redis.store, 'fair', partitions);
    assert.deepEqual(counted, {});
    assert.deepEqual(await bus.state(), before);
    assert.ok(!lines.some(({ level }) => level === 50), 'what others hold is no other data');
    await run(undefined, 1, other, 'oldest', partitions);
    const { used } = await memory();
    assert.ok(used <= 13.2 * MB, `${used / MB} MB are left`);
  });

  test('by `oldest` it is whose batches are oldest', async () => {
    await fillByCarol();
    assert.deepEqual(Object.keys((await run()).counted).sort(), ['carol', 'dave']);
  });

  describe('also if a client arranges its events so that the estimate of its bytes is far too low', () => {
    /** Stores 4 MB of dave, and publishes events of mallory again and again. Returns whose events are dropped. */
    async function whoLoses(max: number, times: number, events: string[]): Promise<string[]> {
      await bus.subscribe('dave', { topics: ['gadgets'], max: 50 });
      for (let i = 0; i < 80; i++)
        await bus.publish(`d${nthWord(i)}`, 'gadgets', Array(50).fill('x'.repeat(1000)));
      await bus.subscribe('mallory', { topics: ['gizmos'], max });
      for (let i = 0; i < times; i++) await bus.publish(`m${nthWord(i)}`, 'gizmos', events);
      const [held] = await redis.store.run('holdings', { tokens: ['mallory'], samples: 250 });
      assert.ok(held && held.bytes < 2 * MB, `${held?.bytes} bytes are estimated`);
      const { counted } = await runFairly();
      assert.ok((await memory()).used <= 13.1 * MB);
      return Object.keys(counted);
    }

    test('each batch begins with short events, where MEMORY USAGE looks', async () => {
      const short = Array<string>(5).fill('s'.repeat(4200));
      const long = Array<string>(20).fill('x'.repeat(60_000));
      assert.deepEqual(await whoLoses(25, 9, [...short, ...long]), ['mallory']);
    });

    test('the batches that are measured are short', async () => {
      // Of 2,250 batches 250 are measured: in each nine the fifth.
      const long = Array<string>(4).fill('x'.repeat(5000));
      assert.deepEqual(await whoLoses(1, 250, [...long, 's', ...long]), ['mallory']);
    });
  });

  test('at once, also if the oldest batches of who holds most are short', async () => {
    await bus.subscribe('mallory', { topics: ['gizmos'], max: 1 });
    for (let i = 0; i < 20; i++) await bus.publish(`s${nthWord(i)}`, 'gizmos', Array(100).fill('s'));
    for (let i = 0; (await memory()).used <= 15.2 * MB; i++)
      await bus.publish(`l${nthWord(i)}`, 'gizmos', Array(10).fill('x'.repeat(60_000)));
    let plans = 0;
    const counting = Object.create(redis.store, {
      run: {
        value: (...args: Parameters<Partition['run']>) => {
          if (args[0] === 'holdings') plans++;
          return redis.store.run(...args);
        },
      },
    }) as Partition;
    await run(undefined, 1, counting, 'fair');
    assert.ok((await memory()).used <= 13.1 * MB);
    assert.ok(plans <= 2, `${plans} plans`);
  });

  test('dead letters count, and go first', async () => {
    await fillByCarol();
    await bus.acquire(['w1']);
    await bus.bury('w1', 'dave1');
    const { grants } = await bus.acquire(['w1', 'w2']);
    for (const { worker, job } of grants) await bus.bury(worker, job);
    await runFairly();
    const { redis: commands, keys } = redis.store;
    assert.equal(await commands.zcard(keys.dead_letters_of('carol')), 0);
    assert.equal(await commands.zcard(keys.dead_letters_of('dave')), 1);
  });

  test('what is in flight counts too, and goes as soon as it comes back; nobody else loses for it', async () => {
    await fillByCarol();
    await bus.acquire(['w1']);
    await bus.ack('w1', 'dave1');
    await bus.publish('davetwo', 'gadgets', Array(49).fill('x'.repeat(1000)));
    await holdAll();
    assert.deepEqual((await runFairly()).counted, {});
    assert.equal((await bus.state()).queued.dave?.length, 1);
    await bus.scrub(-1);
    const { counted } = await runFairly();
    assert.deepEqual(Object.keys(counted), ['carol']);
    assert.ok((await memory()).used <= 13 * MB);
  });
});

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
  const { used } = await readMemory(control, settings);
  for (const redisMaxBytes of [used, 1]) {
    const limits = { redisMaxBytes, redisMinFreeBytes: MB };
    const { lines } = await run(undefined, 1, control, 'oldest', partitions, limits);
    assert.match(String(lines[0]?.msg), /^Redis is short of memory/);
    assert.equal(lines[0]?.node, new URL(cluster.nodes[0]?.url ?? '').host);
  }
});
