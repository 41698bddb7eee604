import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Bus } from '../../harness/scripts/bus.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { readAcquired } from '../../src/delivering/acquired.ts';
import { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { sumOf } from '../../src/sum.ts';
import { autodropScene, MB, TOKEN_ONLY } from './autodrop_scene.ts';

const { redis, bus, memory, fill, run } = autodropScene();

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
    for (const [token, shown] of [
      ['alice', /^unknown\./],
      [TOKEN_ONLY, /^legacy\.[0-9a-f]{16}$/],
    ] as const) {
      const { ever } = await bus.gaps(token);
      assert.ok(ever);
      // Each plan has a line of its own.
      const ofToken = drops.filter(({ subscriber }) => shown.test(String(subscriber)));
      const all = (field: string) => ofToken.map((line) => Number(line[field]));
      const logged = {
        batches: sumOf(all('batches')),
        events: sumOf(all('events')),
        fromMs: Math.min(...all('fromMs')),
        toMs: Math.max(...all('toMs')),
      };
      assert.deepEqual({ ...logged, topics: { '': logged.events } }, ever);
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

  test('goes on to batches although deliveries make new records all the time', async () => {
    await fill();
    const { redis: commands, keys } = redis.store;
    const stop = new AbortController();
    let calls = 0;
    const delivering = Object.create(redis.store, {
      run: {
        value: async (...args: Parameters<Partition['run']>) => {
          const reply = await redis.store.run(...args);
          if (args[0] !== 'drop_logs') return reply;
          if (++calls === 50) stop.abort();
          for (let n = 0; n < 11; n++) {
            await commands.rpush(
              keys.deliveries_taken(`s${n}`),
              `r${n}`,
              `${Date.now()}000,1,1,1,null,9,1,200,5`,
            );
            await commands.zadd(keys.deliveries_logs(), 0, `taken s${n}`);
          }
          return 11;
        },
      },
    }) as Partition;
    const { counted } = await run(stop.signal, 1, delivering);
    assert.notDeepEqual(counted, {});
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

  test('logs what it drops although publishers fill Redis again, and it goes on', async () => {
    await fill();
    const stop = new AbortController();
    let [published, plans] = [0, 0];
    const filling = Object.create(redis.store, {
      command: { value: (...args: Parameters<Partition['command']>) => redis.store.command(...args) },
      run: {
        value: async (...args: Parameters<Partition['run']>) => {
          const reply = await redis.store.run(...args);
          if (args[0] !== 'holdings') return reply;
          if (++plans === 3) stop.abort();
          // What is published now is not in the plan, so Redis is still short of memory when that is carried out.
          for (const end = published + 20; published < end; published++)
            await bus.publish(`n${nthWord(published)}`, 'widgets', Array(50).fill('x'.repeat(1000)));
          return reply;
        },
      },
    }) as Partition;
    const { lines, counted } = await run(stop.signal, 1, filling);
    const ofLegacy = lines.filter(({ subscriber }) => /^legacy/.test(String(subscriber)));
    assert.equal(ofLegacy.length, 2);
    assert.equal(sumOf(ofLegacy.map(({ events }) => Number(events))), counted[TOKEN_ONLY]);
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

for (const policy of ['fair', 'oldest'] as const)
  test(`by \`${policy}\` one plan is enough, also if the oldest batches are short`, async () => {
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
    await run(undefined, 1, counting, policy);
    assert.ok((await memory()).used <= 13.1 * MB);
    assert.ok(plans <= 2, `${plans} plans`);
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
