import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { Api, problemIn } from '../../harness/http/api.ts';
import { readConfig } from '../../src/config.ts';
import { sampleJob } from '../../src/maintenance/sampling.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { Partitions } from '../../src/store/partitions.ts';

const api = new Api();

interface Listed {
  name: string;
  lately: { rate: number; as_of: number } | null;
}

const list = async (query: string, as = 'root') => (await api.pages<Listed>(as, `/topics?${query}`)).flat();
const names = async (query: string, as?: string) => (await list(query, as)).map(({ name }) => name).join(' ');

const sample = () =>
  sampleJob({
    config: readConfig({ ROUTEMASTER_ROOT_KEY: 'root' }),
    partitions: new Partitions(api.store),
    log: capturedLog().log,
  })();

/** Makes topics, by a subscription to these alone. */
async function make(...topics: string[]): Promise<void> {
  const body = JSON.stringify({ topics, callback: 'https://sub.example.com/events' });
  assert.equal((await api.call('POST', '/subscription', { as: topics[0] ?? '', body })).status, 204);
}

async function published(counts: Record<string, number>): Promise<void> {
  const counters = new Counters(new Partitions(api.store), {
    flushIntervalMs: 1000,
    log: capturedLog().log,
  });
  const recorder = new Recorder(counters);
  for (const [topic, events] of Object.entries(counts)) recorder.published(topic, events, 100);
  await counters.flush();
}

describe('sorted topics', () => {
  before(async () => {
    await api.reset();
    await make('flooded', 'calm', 'idle', 'unheard');
    await published({ idle: 5000 });
    await sample();
    const { redis, keys } = api.store;
    const { atMs, ...rest } = JSON.parse((await redis.get(keys.standings())) ?? '');
    await redis.set(keys.standings(), JSON.stringify({ ...rest, atMs: atMs - 60_000 }));
    await published({ flooded: 6000, calm: 60 });
    await sample();
    await make('young');
  });

  for (const [query, expected] of [
    ['sort=rate', 'flooded calm idle unheard young'],
    ['sort=rate&limit=1', 'flooded calm idle unheard young'],
    ['sort=name&limit=2', 'calm flooded idle unheard young'],
    ['sort=rate&name=l', 'flooded calm idle'],
    ['sort=rate&name=nothing', ''],
  ])
    test(`are listed by ${query}`, async () => {
      assert.equal(await names(String(query)), expected);
      assert.equal(await names(String(query), 'reader'), expected);
    });

  test('say how many events each gets, but for those without one at the sample', async () => {
    const all = await list('sort=rate');
    const rates = all.map(({ lately }) => lately?.rate);
    assert.ok(Number(rates[0]) > 50 && Number(rates[0]) <= 100, String(rates[0]));
    assert.ok(Number(rates[1]) > 0.5 && Number(rates[1]) <= 1, String(rates[1]));
    assert.deepEqual(rates.slice(2), [0, undefined, undefined]);
    assert.equal(all.at(-1)?.lately, null);
    assert.ok(Math.abs(Date.now() - (all[0]?.lately?.as_of ?? 0)) < 60_000);
    assert.ok((await list('limit=10')).every((each) => !('lately' in each)));
  });

  for (const [query, field] of [
    ['sort=events', 'sort'],
    [`sort=rate&after=${'a'.repeat(60)}`, 'after'],
  ])
    test(`cannot be asked for by ${query?.slice(0, 20)}`, async () => {
      const problem = problemIn(await api.call('GET', `/topics?${query}`, { as: 'root' }));
      assert.deepEqual([problem.code, problem.field], ['bad_query', field]);
    });
});
