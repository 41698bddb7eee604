import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api, problemIn } from '../../../harness/http/api.ts';
import { cpuSince } from '../../../harness/measuring/cpu.ts';
import { until } from '../../../harness/until.ts';

// A client's triggers may take 5 % of Redis: with 20 MB, a megabyte.
const api = new Api({
  env: {
    ROUTEMASTER_MAX_TRIGGERS: '5',
    ROUTEMASTER_MAX_CLIENT_TRIGGERS: '3',
    ROUTEMASTER_MAX_EVENT_DATA: '600000',
    ROUTEMASTER_CALL_RATE: '50',
  },
  redisConfig: { maxmemory: '20000000' },
});

const parted = new Api({
  env: { ROUTEMASTER_PARTITIONS: '4', ROUTEMASTER_MAX_EVENT_DATA: '600000' },
  redisConfig: { maxmemory: '20000000' },
});

const put = async (as: string, name: string, { data = '', cron = '0 9 * * *' } = {}) => {
  const event = { type: 'noop', url: 'https://evil.example.com/', data };
  const body = JSON.stringify({ topic: `${as}s`, event, schedule: { cron, timezone: 'Europe/Berlin' } });
  const answer = await api.call('PUT', `/triggers/${name}`, { as, body });
  return answer.status >= 400 ? problemIn(answer).code : answer.status;
};

beforeEach(() => api.reset());

describe('triggers are bounded', () => {
  test('in their number, of a client and of all', async () => {
    for (const name of ['a', 'b', 'c']) assert.equal(await put('one', name), 201);
    assert.equal(await put('one', 'd'), 'limit_reached');
    assert.equal(await put('one', 'c'), 200, 'those that are there may be changed');
    for (const name of ['a', 'b']) assert.equal(await put('two', name), 201);
    assert.equal(await put('three', 'a'), 'limit_reached');
    await api.call('DELETE', '/triggers/a', { as: 'one' });
    assert.equal(await put('three', 'a'), 201);
  });

  test('in their bytes: a client’s take 5 % of the memory of Redis at most', async () => {
    await put('one', 'first');
    // Repeated, as the web process reads the limit of Redis in the background.
    await until(async () => (await put('one', 'first', { data: 'x'.repeat(590_000) })) === 200);
    assert.equal(await put('one', 'second', { data: 'x'.repeat(590_000) }), 'limit_reached');
    assert.equal(await put('one', 'second', { data: 'x'.repeat(300_000) }), 201);
    assert.equal(await put('two', 'first', { data: 'x'.repeat(590_000) }), 201, 'another client has its own');
  });

  test('in their bytes also in several partitions of a Redis: each has a part of the 5 %', async () => {
    const put = async (as: string, n: number, data: string) => {
      const event = { type: 'noop', url: 'https://evil.example.com/', data };
      const body = JSON.stringify({ topic: `${as}_${n}`, event, schedule: { every: 3_600_000 } });
      return (await parted.call('PUT', `/triggers/t${n}`, { as, body })).status;
    };
    // As above, until the limit is known.
    await until(async () => (await put('one', 0, 'x'.repeat(300_000))) === 409);
    const statuses: number[] = [];
    for (let n = 0; n < 20; n++) statuses.push(await put('two', n, 'x'.repeat(200_000)));
    const stored = statuses.filter((status) => status === 201).length;
    assert.equal(stored, 4, 'one in each partition');
    assert.ok(statuses.every((status) => status === 201 || status === 409));
  });

  test('in the time that their expressions take', async () => {
    const never = [
      '* * 2 * 3 SUNL',
      '0 0 1W * +SUN',
      `0 0 ${Array.from({ length: 31 }, (_, d) => `${d + 1}W`)} * +SUN`,
    ];
    const used = cpuSince({ web: api.web.pid });
    for (let n = 0; n < 30; n++)
      assert.equal(await put('one', 'a', { cron: never[n % never.length] ?? '' }), 'bad_trigger');
    const tookMs = used().web / 30 / 1000;
    assert.ok(tookMs < 200, `${tookMs} ms each`);
  });

  test('in their calls, as all calls but publishing', async () => {
    await api.token('eager');
    const fire = () => api.call('POST', '/triggers/none/fire', { as: 'eager' });
    let statuses: number[] = [];
    // Ten at a time, fewer than a client may have under way. A slow machine empties the bucket of 500 calls slowly.
    for (let n = 0; n < 500 && !statuses.includes(429); n++)
      statuses = (await Promise.all(Array.from({ length: 10 }, fire))).map(({ status }) => status);
    assert.ok(statuses.includes(429), `${statuses}`);
  });
});
