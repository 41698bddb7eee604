import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { capturedLog } from '../../harness/captured_log.ts';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { PrintingProcess, root } from '../../harness/processes/command.ts';
import { PrivateCluster, tagOf } from '../../harness/redis/private_cluster.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertPartitionsConsistent } from '../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { until } from '../../harness/until.ts';
import { BootError } from '../../src/errors.ts';
import { refuseSecondRun } from '../../src/moving/checks.ts';
import { deleteMoved, move } from '../../src/moving/move.ts';
import { ROWS } from '../../src/moving/rows.ts';
import { openSide, type Side } from '../../src/moving/side.ts';
import { refuseMoved } from '../../src/moving/stored_move.ts';
import { foundKey } from '../../src/store/found_key.ts';
import { fixedText, LAYOUT } from '../../src/store/keys.ts';
import { fixPartitionCount } from '../../src/store/partition_count.ts';
import { countProcesses } from '../../src/store/presence.ts';
import { contentOf, differences } from './content.ts';
import { fillBus } from './filled_bus.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const { log } = capturedLog();
const SIZES = { subscribers: 24, topics: 7, publishes: 21, delayed: 250, triggers: 9 };
const FOUR = 4;

const open = (count: number, prefix = redis.store.prefix, url = redis.redis.url): Promise<Side> =>
  openSide({
    url,
    prefix,
    partitions: String(count),
    tls: { ca: undefined, verify: true },
    log,
  });

let source: Side;
let target: Side;
after(() => {
  for (const side of [source, target]) side?.redis.disconnect();
});
beforeEach(async () => {
  source ??= await open(1);
  target ??= await open(FOUR);
  await redis.flush();
  await redis.store.redis.set(redis.store.keys.schema(), 2);
});

const parts = () => ({ source, target, leaseMs: 30_000, ignoresCallers: true, progress: () => {}, log });
const refused = (what: Promise<unknown>, message: RegExp) =>
  assert.rejects(what, (error: Error) => error instanceof BootError && message.test(error.message));

async function assertMoved({ partitions }: Side): Promise<void> {
  assert.deepEqual(await differences(redis.store, partitions.all), []);
  await assertPartitionsConsistent(partitions);
  for (const partition of partitions.all) await assertNothingToSweep(partition);
}

describe('each key of the layout', () => {
  test('has a row that says how it is moved', () => {
    assert.deepEqual(Object.keys(ROWS).sort(), Object.keys(LAYOUT).sort());
  });

  test('is told from the others by its name', () => {
    for (const [name, { pattern }] of Object.entries(LAYOUT)) {
      const parts = [...pattern.matchAll(/\{(\w+)\}/g)].map(([, part]) =>
        part === 'bid' ? 'b'.repeat(20) : part === 'q' ? 'main' : 'join:name:a',
      );
      if (name === 'trigger' || name === 'trigger_left') parts.splice(0, 2, 'a', 'b');
      const key = fixedText(pattern).reduce((text, fixed, index) => text + parts[index - 1] + fixed);
      assert.deepEqual(foundKey(`shop:${key}`, 'shop:'), { key: `shop:${key}`, name, parts });
    }
  });
});

describe('a move', () => {
  test('copies all that a bus has, each thing to its partition, also if it is killed', async () => {
    await fillBus(redis.store, SIZES);
    await assertConsistent(redis.store);
    const args = ['src/move.ts', '--from', redis.redis.url, '--to', redis.redis.url];
    const options = ['--partitions', String(FOUR), '--ignore-connections'];
    const prefix = { ROUTEMASTER_REDIS_PREFIX: redis.store.prefix };
    const start = () =>
      new PrintingProcess(process.execPath, [...args, ...options], {
        cwd: root,
        env: { ...process.env, ...prefix },
      });
    const killed = start();
    await until(() => redis.store.redis.exists(redis.store.keys.move()), { everyMs: 1 });
    await killed.kill();
    const again = start();
    assert.equal(await again.exitCode, 0, again.output);
    assert.match(
      again.output,
      /events in batches +(\d+) +\1\n.*Run the bus there with ROUTEMASTER_PARTITIONS=4/s,
    );
    await assertMoved(target);
  });

  test('does not begin if nobody says where to', async () => {
    const env = {
      ...process.env,
      ROUTEMASTER_REDIS_URL: redis.redis.url,
      ROUTEMASTER_REDIS_PREFIX: redis.store.prefix,
    };
    // A script may give a variable that is empty.
    for (const to of [[], ['--to', '']]) {
      const args = ['src/move.ts', '--ignore-connections', ...to];
      const moving = new PrintingProcess(process.execPath, args, { cwd: root, env });
      assert.equal(await moving.exitCode, 2, moving.output);
      assert.match(moving.output, /^move: --to is missing\n\nUsage: /);
    }
    assert.equal(await redis.store.redis.exists(redis.store.keys.move()), 0);
  });

  test('copies all to sixteen partitions under another prefix', async (t) => {
    const other = await open(16, 'other:');
    t.after(() => other.redis.disconnect());
    await fillBus(redis.store, SIZES);
    for (const { what, source, target } of await move({ ...parts(), target: other }))
      assert.equal(target, source, what);
    await assertMoved(other);
    const after = await contentOf(other.partitions.all);
    await deleteMoved(source);
    assert.deepEqual([...(await contentOf([redis.store])).keys()], ['move']);
    assert.deepEqual(await contentOf(other.partitions.all), after);
    await refused(refuseMoved(redis.store), /was moved/);
  });

  test('counts what became of each batch once', async () => {
    await bus.subscribe('shop', { topics: ['orders'], max: 1 });
    await bus.publish('seed', 'orders', ['a', 'b', 'c']);
    const { grants } = await bus.acquire(['w1', 'w2']);
    for (const { worker, job } of grants) await bus.ack(worker, job);
    await bus.dropQueue('shop');
    await bus.scrub(-1);
    const comparison = await move(parts());
    const counted = (what: string) => comparison.find((each) => each.what === what);
    assert.equal(counted('records of taken batches')?.target, 2);
    assert.equal(counted('records of dropped batches')?.target, 1);
  });

  test('adds up the records of all batches in each partition', async () => {
    // Records are counted in units of 16.
    const events = Array.from({ length: 20 }, (_, n) => `e${n}`);
    for (const token of ['shop', 'mill']) await bus.subscribe(token, { topics: ['orders'], max: 1 });
    await bus.publish('seed', 'orders', events);
    for (const token of ['shop', 'mill']) await bus.dropQueue(token);
    const { redis: commands, keys } = redis.store;
    assert.equal(await commands.hget(keys.deliveries_total(), 'records'), '32');
    await move(parts());
    await assertMoved(target);
  });

  test('begins again if it was cut off; until it has ended nobody starts on the target, and nobody on the source', async () => {
    await fillBus(redis.store, SIZES);
    const boot = (partitions: number) =>
      fixPartitionCount(target.partitions.control, { redisPrefix: target.prefix, partitions });
    const cutOff = () => {
      throw new Error('cut off');
    };
    await assert.rejects(move({ ...parts(), progress: cutOff }), /cut off/);
    await refused(boot(FOUR), /A move into this bus is not finished/);
    await refused(deleteMoved(source), /was not moved, so nothing is deleted/);
    await refused(refuseMoved(redis.store), /is being moved to 4 partitions in .*DEL .*move\b/);
    await move(parts());
    await assertMoved(target);
    await boot(FOUR);
    await refuseMoved(target.partitions.control);
    await refused(refuseMoved(redis.store), /was moved on 20.* to 4 partitions/);
    await refused(move(parts()), /was moved to .* already/);
  });

  test('leaves no key without its end if it is cut off before it has set the end', async (t) => {
    const { redis: commands, keys } = redis.store;
    await commands.hset(keys.rate('shop'), 'events', '1');
    await commands.pexpire(keys.rate('shop'), 60_000);
    const proxy = await MeddlingProxy.toRedis(redis.redis.socketPath ?? '');
    t.after(() => proxy.stop());
    const into = await open(FOUR, redis.store.prefix, proxy.url);
    t.after(() => into.redis.disconnect());
    const end = '*3\r\n$9\r\nPEXPIREAT';
    void proxy.strike(piece('request', end), { splitBefore: end, first: () => proxy.stop() });
    await refused(move({ ...parts(), target: into }), /Redis went away/);
    // The key expires before the move goes on, so the move does not find it again.
    await commands.del(keys.rate('shop'));
    assert.deepEqual(await commands.keys('*rate:shop'), []);
  });

  test('copies all again if it was cut off before its end, and the target is empty now', async () => {
    await fillBus(redis.store, SIZES);
    await move(parts());
    const { redis: commands, keys } = redis.store;
    await commands.hdel(keys.move(), 'done_at');
    const copied = await Promise.all(target.partitions.all.map(({ prefix }) => commands.keys(`${prefix}*`)));
    await commands.del(...copied.flat());
    await commands.set(`${target.prefix}partitions`, '8');
    await refused(move(parts()), /has a bus already, with 8 partitions/);
    await commands.del(`${target.prefix}partitions`);
    await move(parts());
    await assertMoved(target);
  });

  test('copies nothing again if only the number of partitions is missing', async () => {
    await fillBus(redis.store, SIZES);
    await move(parts());
    const { redis: commands, keys } = redis.store;
    const id = await commands.hget(keys.move(), 'id');
    await commands.set(`${target.prefix}partitions`, `4, being filled by the move ${id}`);
    const before = await contentOf(target.partitions.all);
    await deleteMoved(source);
    assert.deepEqual(await move({ ...parts(), progress: () => assert.fail('nothing is copied') }), []);
    assert.equal(await commands.get(`${target.prefix}partitions`), String(FOUR));
    assert.deepEqual(await contentOf(target.partitions.all), before);
    await refused(move(parts()), /was moved to .* already/);
  });

  for (const state of ['cut off', 'done'] as const)
    test(`into the same Redis that is ${state} can be given up, as the refusal to start says`, async () => {
      const cutOff = () => {
        throw new Error('cut off');
      };
      if (state === 'done') await move(parts());
      else await assert.rejects(move({ ...parts(), progress: cutOff }), /cut off/);
      const refusal = await refuseMoved(redis.store).then(String, (error: Error) => error.message);
      const [, keys = ''] = /redis-cli DEL (.*)\. docs/.exec(refusal) ?? [];
      await redis.store.redis.del(...keys.split(' '));
      await refuseMoved(redis.store);
      await fixPartitionCount(redis.store, { redisPrefix: redis.store.prefix, partitions: 1 });
    });

  test('notices that the bus changes meanwhile', async () => {
    await fillBus(redis.store, SIZES);
    let published: Promise<void> | undefined;
    const progress = () => {
      published ??= bus.publish('late', 'new_topic', ['e']);
    };
    await refused(
      move({ ...parts(), progress }),
      /The bus changed while it was moved: topics were \d+ and are \d+/,
    );
    await published;
  });
});

describe('a process that a move could not see', () => {
  for (const [type, when] of [
    ['web', 'was starting'],
    ['web', 'was cut off from Redis'],
    ['worker', 'was cut off from Redis'],
  ] as const)
    test(`because it ${when}, ends: a ${type} process`, async (t) => {
      const proxy = await MeddlingProxy.toRedis(redis.redis.socketPath ?? '');
      t.after(() => proxy.stop());
      // The whole move happens just before Redis hears that the process is there.
      const moveBeforehand = () =>
        proxy.strike(piece('request', redis.store.keys.processes(type)), {
          first: () => move({ ...parts(), leaseMs: -1 }),
        });
      let moved = when === 'was starting' ? moveBeforehand() : undefined;
      const env = {
        PORT: '0',
        ROUTEMASTER_REDIS_URL: proxy.url,
        ROUTEMASTER_REDIS_PREFIX: redis.store.prefix,
        ROUTEMASTER_ROOT_KEY: 'the-root-key-of-this-test',
        ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '3600',
      };
      const started = new PrintingProcess(process.execPath, [`src/${type}.ts`], {
        cwd: root,
        env: { ...process.env, ...env },
      });
      t.after(() => started.kill());
      if (!moved) {
        await until(async () => (await countProcesses(redis.store))?.[type] === 1);
        moved = moveBeforehand();
        await redis.store.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      }
      await moved;
      await started.prints(/This bus was moved on 20.* to 4 partitions/);
      assert.equal(await started.exitCode, BootError.EXIT_CODE);
    });
});

describe('a move is refused', () => {
  const store = () => redis.store;

  test('if there is no bus, or one of another release', async () => {
    await store().redis.set(store().keys.schema(), 3);
    await refused(move(parts()), /has layout 3, and this release has layout 2/);
    await store().redis.del(store().keys.schema());
    await refused(move(parts()), /no bus to move/);
    await store().redis.set(`${store().prefix}partitions`, 8);
    await refused(move(parts()), /has 8 partitions; only a bus with one/);
  });

  test('if Redis cannot be reached, and says why, without the password', async () => {
    await refused(
      open(FOUR, '', 'redis://nobody:secret@127.0.0.1:1'),
      /^Redis cannot be reached at redis:\/\/127\.0\.0\.1:1: connect ECONNREFUSED/,
    );
    await refused(
      open(FOUR, '', 'redis://nobody:hidden@hidden@127.0.0.1:1/2?password=hidden'),
      /^Redis cannot be reached at redis:\/\/127\.0\.0\.1:1\/2: connect ECONNREFUSED/,
    );
    await refused(
      open(FOUR, '', 'redis+sentinel://127.0.0.1:1/main?sentinel_user=a&sentinel_password=hidden&db=2'),
      /^Redis cannot be reached at redis\+sentinel:\/\/127\.0\.0\.1:1\/main\?db=2: /,
    );
  });

  test('if another program has written keys of the bus', async () => {
    for (const digest of ['one', 'two']) await store().redis.hset(store().keys.session(digest), 'user', 'x');
    await refused(
      move(parts()),
      /Another program .*session:\{digest\} is a hash instead of a string \(2 keys\)\. Find/,
    );
  });

  test('if another program writes keys that expire into the target', async () => {
    const { redis: commands, keys } = store();
    await commands.hset(keys.former_secret('shop'), 'ha1_md5', 'a');
    await commands.pexpire(keys.former_secret('shop'), 60_000);
    await assert.rejects(move({ ...parts(), progress: () => assert.fail('cut off') }), /cut off/);
    const { control } = target.partitions;
    await commands.set(control.keys.former_secret('shop'), 'of another program');
    await assert.rejects(move(parts()), /WRONGTYPE/);
  });

  test('if a Redis is full or away, or does not permit a command', async (t) => {
    const other = await PrivateRedis.during(t);
    const into = await open(FOUR, '', other.url);
    const from = await open(1, '', other.url);
    t.after(() => into.redis.disconnect());
    await store().redis.config('SET', 'maxmemory', '1mb');
    await refused(move({ ...parts(), target: into }), /no memory left/);
    await store().redis.config('SET', 'maxmemory', 0);
    from.redis.disconnect();
    await refused(move({ ...parts(), source: from }), /Redis went away/);
    await store().redis.call('ACL', 'SETUSER', 'default', '-hvals');
    await refused(move(parts()), /Redis says: NOPERM .*hvals.* docs\/scale\.md/);
    await store().redis.call('ACL', 'SETUSER', 'default', '+@all');
  });

  test('while workers run, or connections run scripts', async () => {
    await store().redis.hset(store().keys.workers(), 'w1', await bus.nowMs());
    await refused(move(parts()), /1 workers of the bus run/);
    await store().redis.del(store().keys.workers());
    await bus.schedule();
    await refused(move({ ...parts(), ignoresCallers: false }), /run scripts in the Redis of the bus/);
  });

  test('while a web or worker process is alive, whatever its last command was', async (t) => {
    const listening = new Redis(redis.redis.url);
    t.after(() => listening.disconnect());
    await listening.subscribe(store().keys.processes('web'));
    await refused(move(parts()), /^1 web and 0 worker processes of the bus are alive\. Stop all/);
    assert.equal(await store().redis.exists(store().keys.move()), 0);
    await listening.unsubscribe();
    const progress = () => void listening.subscribe(store().keys.processes('worker'));
    await refused(
      move({ ...parts(), progress }),
      /changed while it was moved: 0 web and 1 worker processes have started/,
    );
  });

  test('while another run moves the same bus', async (t) => {
    const other = await open(1);
    t.after(() => other.redis.disconnect());
    await fillBus(store(), SIZES);
    const refusals: Promise<void>[] = [];
    const progress = () => {
      const second = move({ ...parts(), source: other });
      refusals.push(refused(second, /^Another bin\/move of this bus runs, with a connection from /));
    };
    await move({ ...parts(), progress });
    assert.ok(refusals.length > 0);
    await Promise.all(refusals);
    await assertMoved(target);
  });

  for (const where of ['one Redis', 'a cluster'])
    test(`while another run moves the same bus in ${where}, also after its connection was cut`, async (t) => {
      const cluster = where === 'a cluster' && (await PrivateCluster.start({ masters: 1, replicas: 0 }));
      const url = cluster ? cluster.url : redis.redis.url;
      const [first, second] = [await open(1, 'cut:', url), await open(1, 'cut:', url)];
      t.after(async () => {
        for (const side of [first, second]) side.redis.disconnect();
        if (cluster) await cluster.stop();
      });
      await refuseSecondRun(first);
      const { control } = first.partitions;
      const { connections } = control;
      await second.partitions.control.redis.client('KILL', 'ID', await control.redis.client('ID'));
      await until(async () => {
        await control.command((commands) => commands.ping()).catch(() => {});
        return control.connections > connections;
      });
      await refused(refuseSecondRun(second), /^Another bin\/move of this bus runs/);
    });

  test('while another run moves the same bus in a cluster, also after its slot went to another master', async (t) => {
    const cluster = await PrivateCluster.start({ masters: 2, replicas: 0 });
    const [first, second] = [await open(1, 'cut:', cluster.url), await open(1, 'cut:', cluster.url)];
    t.after(async () => {
      for (const side of [first, second]) side.redis.disconnect();
      await cluster.stop();
    });
    await refuseSecondRun(first);
    const { control } = first.partitions;
    const before = await cluster.masterOf(tagOf(control));
    await cluster.moveSlot(tagOf(control), cluster.nodes.find((node) => node !== before) as PrivateRedis);
    for (const side of [first, second])
      await until(() =>
        side.partitions.control.command((commands) => commands.get('cut:any')).then(() => true),
      );
    await refused(refuseSecondRun(second), /^Another bin\/move of this bus runs/);
  });

  test('into a bus, into what another move has begun, and into a Redis that deletes', async (t) => {
    const other = await open(FOUR, 'other:');
    t.after(() => other.redis.disconnect());
    const into = () => move({ ...parts(), target: other });
    await store().redis.set('other:schema', 2);
    await refused(into(), /target has a bus already, with one partition/);
    await store().redis.del('other:schema');
    await store().redis.set('other:partitions', FOUR);
    await refused(into(), /target has a bus already, with 4 partitions/);
    await store().redis.set('other:partitions', '4, being filled by the move of somebody');
    await refused(into(), /Another move has begun/);
    await store().redis.del('other:partitions');
    // A move that was given up soon has left whichever keys its scan found first.
    const { keys = store().keys } = other.partitions.all[2] ?? {};
    await store().redis.hset(keys.subscriber('client1'), 'paused_at', 1);
    await refused(into(), /target has data of a bus/);
    assert.equal(await store().redis.exists(store().keys.move()), 0);
    await store().redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await refused(into(), /maxmemory-policy/);
    await store().redis.config('SET', 'maxmemory-policy', 'noeviction');
  });
});
