import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api, problemIn } from '../../harness/http/api.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const CALLBACK = 'https://app.example.com/events';

type Entry = Record<string, unknown>;

const sizes = (pages: Entry[][]) => pages.map(({ length }) => length);

async function whole(api: Api, as: string, path: string): Promise<Entry[]> {
  const { headers, text } = await api.call('GET', path, { as });
  assert.equal(headers.link, undefined);
  return JSON.parse(text);
}

async function publish(api: Api, ...topics: string[]): Promise<void> {
  await api.token('pub');
  for (const topic of topics) await api.call('POST', `/topics/${topic}`, { as: 'pub', body: EVENT });
}

async function subscribe(api: Api, ...names: string[]): Promise<void> {
  const body = JSON.stringify({ topics: [], callback: CALLBACK });
  for (const as of names) await api.call('POST', '/subscription', { as, body });
}

describe('pages of a listing', () => {
  const api = new Api();
  beforeEach(() => api.reset());

  test('are JSON also if entries at the end or at the start, or all, can no longer be read', async () => {
    const event = { type: 'noop', url: 'https://app.example.com/1' };
    const body = JSON.stringify({ topic: 'reports', event, schedule: { every: 60_000 } });
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) await api.call('PUT', `/triggers/${name}`, { as: 'pub', body });
    const { redis, keys } = api.store;
    const definitions = keys.triggers_of(await api.token('pub'));
    const listed = async () =>
      JSON.parse((await api.call('GET', '/triggers', { as: 'pub' })).text).map((each: Entry) => each.name);
    const e = await redis.hget(definitions, 'e');
    await redis.hset(definitions, 'e', 'unreadable');
    assert.deepEqual(await listed(), ['a', 'b', 'c', 'd']);
    for (const name of names) await redis.hset(definitions, name, 'unreadable');
    assert.deepEqual(await listed(), []);
    await redis.hset(definitions, 'e', e ?? '');
    assert.deepEqual(await listed(), ['e']);
  });

  test('have together what the whole has, in its order', async () => {
    await subscribe(api, 'eve', 'bob', 'dan', 'cat', 'ann');
    await publish(api, 'cherries', 'apples', 'dates', 'bananas');
    for (const [path, pages] of [
      ['/topics', [2, 2]],
      ['/subscriptions', [2, 2, 1]],
      ['/subscribers', [2, 2, 1]],
      ['/api_tokens', [2, 2, 2]],
    ] as const) {
      const found = await api.pages<Entry>('root', `${path}?limit=2`);
      assert.deepEqual(sizes(found), pages, path);
      assert.deepEqual(found.flat(), await whole(api, 'root', path));
    }
    assert.deepEqual(
      (await api.pages<Entry>('ann', '/topics?limit=3')).flat(),
      await whole(api, 'ann', '/topics'),
    );
    assert.deepEqual(await api.pages<Entry>('ann', '/subscriptions?limit=1'), [
      await whole(api, 'ann', '/subscriptions'),
    ]);
    assert.deepEqual(await api.pages<Entry>('pub', '/subscriptions?limit=1'), [[]]);
  });

  test('neither repeat nor miss what stays, while others come and go', async () => {
    await publish(api, 'b', 'd', 'f', 'h');
    const first = await api.page<Entry>('root', '/topics?limit=2');
    for (const gone of ['d', 'f']) await api.call('DELETE', `/topics/${gone}`, { as: 'root' });
    await publish(api, 'a', 'e');
    const rest = await api.page<Entry>('root', first.next ?? '');
    assert.deepEqual(
      rest.entries.map(({ name }) => name),
      ['e', 'h'],
    );
    assert.equal(rest.next, undefined);
    for (const gone of ['a', 'b', 'e', 'h']) await api.call('DELETE', `/topics/${gone}`, { as: 'root' });
    assert.deepEqual((await api.page<Entry>('root', first.next ?? '')).entries, []);
  });

  test('have 100 entries after a place unless asked for others; long ones come in pieces', async () => {
    await publish(api, ...Array.from({ length: 302 }, (_, n) => `topic_${n}`));
    const all = await whole(api, 'pub', '/topics');
    const { next = '' } = await api.page<Entry>('pub', '/topics?limit=1');
    const rest = await api.pages<Entry>('pub', next.replace('limit=1&', ''));
    assert.deepEqual(sizes(rest), [100, 100, 100, 1]);
    assert.deepEqual(rest.flat(), all.slice(1));
    const found = await api.pages<Entry>('pub', '/topics?limit=301');
    assert.deepEqual(sizes(found), [301, 1]);
    assert.deepEqual(found.flat(), all);
  });

  test('of clients are none while there are none', async () => {
    assert.equal((await api.call('GET', '/api_tokens?limit=1', { as: 'root' })).status, 204);
  });

  test('begin only where a page of the same listing ended', async () => {
    await subscribe(api, 'ann', 'bob');
    await publish(api, 'apples', 'bananas');
    const { next = '' } = await api.page<Entry>('root', '/topics?limit=1');
    const query = new URL(next, 'http://bus').search;
    const altered = query.replace(/after=./, (start) => `after=${start.endsWith('A') ? 'B' : 'A'}`);
    for (const path of [`/subscriptions${query}`, `/api_tokens${query}`, `/topics${altered}`]) {
      const { code, field } = problemIn(await api.call('GET', path, { as: 'root' }));
      assert.deepEqual([code, field], ['bad_query', 'after'], path);
    }
  });

  test('have no token in their links', async () => {
    await subscribe(api, 'ann', 'bob');
    const tokens = await Promise.all(['ann', 'bob'].map((name) => api.token(name)));
    for (const path of ['/subscriptions?limit=1', '/api_tokens?limit=1']) {
      const { next = '' } = await api.page<Entry>('root', path);
      const place = Buffer.from(new URL(next, 'http://bus').searchParams.get('after') ?? '', 'base64url');
      assert.ok(place.length > 29, next);
      for (const token of tokens) assert.ok(!next.includes(token) && !place.includes(token));
    }
  });
});

describe('pages in compatibility mode', () => {
  const api = new Api({ env: { ROUTEMASTER_COMPATIBILITY: 'routemaster' } });

  test('show a client all subscribers, as the whole does', async () => {
    await subscribe(api, 'ann', 'bob', 'cat');
    const found = await api.pages<Entry>('bob', '/subscriptions?limit=1');
    assert.deepEqual(sizes(found), [1, 1, 1]);
    assert.deepEqual(found.flat(), await whole(api, 'bob', '/subscriptions'));
  });
});
