import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import { TestStore } from '../../harness/redis/store.ts';
import { type Figures, History, STORED, type SubjectKind } from '../../src/metrics/history.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const history = () => new History(new Partitions(redis.store));
const NOTHING: Figures<'bus'> = {
  ...{ published: 0, delivered: 0, failed: 0, latencyMs: 0, latencies: 0, queued: 0, oldestSeconds: 0 },
  ...{ memory: 0, subscribers: 0, failing: 0, paused: 0, deadLetters: 0, dropped: 0 },
};

beforeEach(() => redis.flush());

async function nowSlot(): Promise<number> {
  return Math.floor(Number((await redis.store.redis.time())[0]) / 10);
}

/** Writes entries as the job `sample` does. The number before an entry is its age in slots. */
async function write<K extends SubjectKind>(
  kind: K,
  name: string,
  now: number,
  entries: readonly [slotsAgo: number, figures: Partial<Figures<K>>][],
  list: 'history_fine' | 'history_coarse' = 'history_fine',
): Promise<void> {
  const subject = kind === 'bus' ? kind : `${kind}:${name}`;
  for (const [ago, figures] of entries) {
    const values = STORED[kind].map((each) => figures[each as keyof Figures<K>] ?? 0);
    await redis.store.redis.rpush(
      redis.store.keys[list](subject),
      Buffer.from(encode([now - ago, ...values])),
    );
  }
}

/** Returns the values of the last few slots. */
const last = (values: readonly (number | null)[] | undefined, count: number) => values?.slice(-count);

describe('the history of the bus', () => {
  test('is empty at first', async () => {
    const { metrics, step } = await history().read('bus', '', '1h');
    assert.equal(step, 10_000);
    assert.equal(metrics.published?.values.length, 360);
    assert.ok(metrics.published.values.every((value) => value === null));
    assert.equal(await history().latest(), undefined);
  });

  test('has rates, levels and mean latencies', async () => {
    const now = await nowSlot();
    await write('bus', '', now, [
      [2, { published: 100, queued: 7, latencyMs: 50, latencies: 1 }],
      [1, { published: 150, queued: 9, latencyMs: 350, latencies: 4, deadLetters: 6 }],
      [0, { published: 150, queued: 3, latencyMs: 350, latencies: 4, memory: 42 }],
    ]);
    const { metrics, start } = await history().read('bus', '', '1h');
    const slots = await nowSlot();
    const lag = slots - now;
    const shown = (values: readonly (number | null)[] | undefined) => last(values, 3 + lag)?.slice(0, 3);
    assert.deepEqual(shown(metrics.published?.values), [null, 5, 0]);
    assert.deepEqual(shown(metrics.queued?.values), [null, 9, 3]);
    assert.deepEqual(shown(metrics.latency?.values), [null, 100, null]);
    assert.deepEqual(shown(metrics.dead?.values), [null, 6, 0]);
    assert.equal(start, (slots - 359) * 10_000);
    assert.deepEqual(await history().latest(), {
      atMs: now * 10_000,
      figures: { ...NOTHING, published: 150, queued: 3, latencyMs: 350, latencies: 4, memory: 42 },
    });
  });

  test('shows the rate of one event in five minutes', async () => {
    const now = Math.floor((await nowSlot()) / 30);
    await write(
      'bus',
      '',
      now,
      [
        [1, { published: 7 }],
        [0, { published: 8 }],
      ],
      'history_coarse',
    );
    const { metrics } = await history().read('bus', '', '24h');
    assert.ok(metrics.published?.values.includes(0.00333));
  });

  test('shows nothing for a time without samples, and the mean rate over it', async () => {
    const now = await nowSlot();
    await write('bus', '', now, [
      [5, { published: 100 }],
      [4, { published: 200 }],
      [1, { published: 500 }],
      [0, { published: 400 }],
    ]);
    const { values } = (await history().read('bus', '', '1h', 'published')).metrics.published ?? {};
    const lag = (await nowSlot()) - now;
    // A total that became smaller was lost with Redis, so the rate is 0 and not negative.
    assert.deepEqual(last(values, 5 + lag)?.slice(0, 5), [10, null, null, 10, 0]);
  });
});

test('the bus knows how many events it dropped within a day', async () => {
  const now = await nowSlot();
  const coarseNow = Math.floor(now / 30);
  const lately = () => history().droppedWithin(86_400_000);
  assert.equal(await lately(), undefined);
  await write('bus', '', now, [[0, { dropped: 50 }]]);
  assert.equal(await lately(), undefined);
  const day = 288;
  await write(
    'bus',
    '',
    coarseNow,
    [
      [day + 100, { dropped: 10 }],
      [day + 1, { dropped: 20 }],
      [day - 1, { dropped: 30 }],
      [1, { dropped: 40 }],
    ],
    'history_coarse',
  );
  const intoStepMs = (now - coarseNow * 30) * 10_000;
  assert.deepEqual(await lately(), { events: 20, agoMs: 300_000 + intoStepMs });
  await write('bus', '', coarseNow, [[0, { dropped: 50 }]], 'history_coarse');
  assert.deepEqual(
    await lately(),
    { events: 20, agoMs: 300_000 + intoStepMs },
    'none since the newest entry',
  );
  await write('bus', '', now, [[0, { dropped: 25 }]]);
  assert.equal(await lately(), undefined, 'a total that became smaller was lost with Redis');
});

test('a subject without a new entry has not changed', async () => {
  const now = await nowSlot();
  await write('bus', '', now, [
    [3, {}],
    [2, {}],
    [1, {}],
    [0, {}],
  ]);
  await write('subscriber', 'alice', now, [
    [400, { delivered: 70, queued: 5 }],
    [1, { delivered: 90, queued: 2 }],
  ]);
  const { metrics } = await history().read('subscriber', 'alice', '1h');
  const lag = (await nowSlot()) - now;
  assert.deepEqual(Object.keys(metrics), ['delivered', 'failed', 'queued', 'oldest']);
  assert.deepEqual(last(metrics.delivered?.values, 3 + lag)?.slice(0, 3), [0, 2, 0]);
  assert.deepEqual(last(metrics.queued?.values, 3 + lag)?.slice(0, 3), [5, 2, 2]);
});
