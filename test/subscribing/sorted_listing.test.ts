import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { Api, problemIn } from '../../harness/http/api.ts';
import { readConfig } from '../../src/config.ts';
import { sampleJob } from '../../src/maintenance/sampling.ts';
import { Partitions } from '../../src/store/partitions.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const LONG_EVENT = EVENT.replace('}', `,"data":"${'x'.repeat(9000)}"}`);
const CALLBACK = 'https://sub.example.com/events';
const CREDENTIAL = 'quiet--0123456789abcdef0123456789abcdef';
const api = new Api();

interface Listed {
  subscriber: string;
  bytes: { queued: number; dead_letters: number };
  lately: { rate: number; success: number | null; drained_at: number | null; as_of: number } | null;
}

const list = async (query: string, as = 'root') =>
  (await api.pages<Listed>(as, `/subscribers?${query}`)).flat();

const names = async (query: string, as?: string) =>
  (await list(query, as)).map(({ subscriber }) => subscriber.split(/--|\./, 1)[0]);

const sample = () =>
  sampleJob({
    config: readConfig({ ROUTEMASTER_ROOT_KEY: 'root' }),
    partitions: new Partitions(api.store),
    log: capturedLog().log,
  })();

async function subscribe(as: string): Promise<void> {
  const body = JSON.stringify({ topics: [`t_${as}`], callback: CALLBACK, timeout: 3_600_000, max: 1000 });
  assert.equal((await api.call('POST', '/subscription', { as, body })).status, 204);
}

describe('sorted subscribers', () => {
  before(async () => {
    await api.reset();
    await api.call('POST', '/api_tokens', {
      as: 'root',
      body: JSON.stringify({ name: 'quiet', token: CREDENTIAL }),
    });
    api.enter({ name: 'quiet', token: CREDENTIAL });
    for (const [name, events] of [
      ['few', 1],
      ['many', 5],
      ['ill', 2],
      ['quiet', 0],
    ] as const) {
      await subscribe(name);
      for (let n = 0; n < events; n++)
        await api.call('POST', `/topics/t_${name}`, { as: 'pub', body: name === 'few' ? LONG_EVENT : EVENT });
    }
    const { redis, keys } = api.store;
    await redis.hset(keys.subscriber(await api.token('ill')), 'health_points', 40);
    await api.call('POST', '/subscriber/pause', { as: 'few' });
    await sample();
    await subscribe('young');
  });

  for (const [query, expected] of [
    ['sort=name', 'few ill many quiet young'],
    ['sort=queued', 'many ill few quiet young'],
    ['sort=bytes', 'few many ill quiet young'],
    ['sort=oldest', 'few many ill quiet young'],
    ['sort=health', 'ill few many quiet young'],
    ['sort=state', 'ill few many quiet young'],
    ['sort=drained&limit=2', 'few ill many quiet young'],
    ['sort=queued&limit=2', 'many ill few quiet young'],
    ['sort=queued&state=healthy', 'many quiet young'],
    ['state=failing', 'ill'],
    ['state=paused&sort=queued', 'few'],
    ['state=recovering', ''],
    ['name=ill', 'ill'],
    ['name=many--', 'many'],
  ])
    test(`are listed by ${query}`, async () => {
      assert.equal((await names(String(query))).join(' '), expected);
    });

  test('say how much memory they take now', async () => {
    const [few, , , quiet] = await list('sort=bytes');
    assert.ok(few && few.bytes.queued > 9000, String(few?.bytes.queued));
    assert.deepEqual([few.bytes.dead_letters, quiet?.bytes], [0, { queued: 0, dead_letters: 0 }]);
  });

  test('say how they did lately, but for those that came after the sample', async () => {
    const [many, , , , young] = await list('sort=queued');
    assert.deepEqual([many?.lately?.rate, many?.lately?.success, many?.lately?.drained_at], [0, null, null]);
    assert.ok(Math.abs(Date.now() - (many?.lately?.as_of ?? 0)) < 60_000);
    assert.equal(young?.lately, null);
  });

  test('are found by viewers by the name of their client, and never by a token', async () => {
    assert.deepEqual(await names('name=quiet', 'viewer'), ['quiet']);
    assert.deepEqual(await names('name=0123456789abcdef', 'viewer'), []);
    assert.deepEqual(await names('name=0123456789abcdef'), ['quiet']);
    assert.ok(!JSON.stringify(await list('sort=name', 'viewer')).includes(CREDENTIAL));
  });

  test('are for a client itself alone', async () => {
    assert.deepEqual(await names('sort=queued', 'ill'), ['ill']);
    assert.deepEqual(await names('name=many', 'ill'), ['ill']);
  });

  for (const [query, field] of [
    ['sort=size', 'sort'],
    ['state=broken', 'state'],
    [`name=${'a'.repeat(101)}`, 'name'],
    [`sort=queued&after=${'a'.repeat(60)}`, 'after'],
  ])
    test(`cannot be asked for by ${query?.slice(0, 20)}`, async () => {
      const problem = problemIn(await api.call('GET', `/subscribers?${query}`, { as: 'root' }));
      assert.deepEqual([problem.code, problem.field], ['bad_query', field]);
    });
});
