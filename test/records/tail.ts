import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problemIn } from '../../harness/http/api.ts';
import { until } from '../../harness/until.ts';
import { clock } from '../../src/clock.ts';
import type { TailEntry } from '../../src/records/tail.ts';
import { api } from './deliveries_scene.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';

describe('the live tail', () => {
  const look = async (query = '', as = 'viewer'): Promise<TailEntry[]> =>
    JSON.parse((await api.call('GET', `/tail${query}`, { as })).text);
  const publish = (topic: string, body: string) => api.call('POST', `/topics/${topic}`, { as: 'pub', body });
  const when = async (query: string, count: number) => {
    let found: TailEntry[] = [];
    await until(async () => {
      found = await look(query);
      return found.length >= count;
    });
    return found;
  };

  test('shows an event that is published after somebody looked', async () => {
    const token = await api.token('pub');
    assert.deepEqual(await look(), []);
    await publish('widgets', EVENT);
    const [entry] = await when('', 1);
    assert.equal(entry?.topic, 'widgets');
    assert.equal(entry.client, token);
    assert.equal(entry.skipped, 0);
    assert.equal(entry.event?.url, 'https://app.example.com/1');
    assert.equal(entry.bytes, Buffer.byteLength(JSON.stringify(entry.event)));
  });

  test('shows events of a web process whose clock is a minute ahead', async (t) => {
    await api.token('pub');
    await look();
    t.mock.method(clock, 'wallMs', () => Date.now() + 60_000);
    await publish('widgets', EVENT);
    await until(async () => (await api.store.redis.exists(api.store.keys.tail('*'))) === 1);
  });

  test('shows numbers of 64 bits with their digits', async () => {
    await api.token('pub');
    await look();
    await publish('widgets', EVENT.replace('}', ',"data":{"id":12345678901234567890}}'));
    await when('', 1);
    assert.match((await api.call('GET', '/tail', { as: 'viewer' })).text, /"id":12345678901234567890/);
  });

  test('shows those of one topic, the newest first', async () => {
    await api.token('pub');
    await look('?topic=widgets');
    for (const topic of ['widgets', 'others', 'widgets']) await publish(topic, EVENT);
    const found = await when('?topic=widgets', 2);
    assert.deepEqual(
      found.map(({ topic }) => topic),
      ['widgets', 'widgets'],
    );
    assert.ok((found[0]?.at ?? 0) >= (found[1]?.at ?? 0));
  });

  test('shows an event that is published together with delayed ones, and these not', async () => {
    await api.token('pub');
    await look();
    const delayed = EVENT.replace('}', ',"delay":3600000}');
    await publish('widgets', `[${delayed},${EVENT.replace('/1', '/now')}]`);
    await publish('widgets', delayed);
    await publish('widgets', EVENT);
    const found = await when('', 2);
    assert.deepEqual(
      found.map(({ event, skipped }) => [event?.url, skipped]),
      [
        ['https://app.example.com/1', 0],
        ['https://app.example.com/now', 0],
      ],
    );
  });

  test('shows an event whose time has passed, in its place among others', async () => {
    await api.token('pub');
    await look();
    const timed = (n: string, due: string) => EVENT.replace('/1"}', `/${n}",${due}}`);
    const events = [timed('past', '"at":200000000000'), EVENT, timed('later', '"delay":3600000')];
    await publish('widgets', `[${events.join(',')}]`);
    await publish('widgets', timed('alone', '"at":200000000000'));
    const found = await when('', 3);
    assert.deepEqual(
      found.map(({ event }) => [event?.url, event?.t === 200_000_000_000]),
      [
        ['https://app.example.com/alone', true],
        ['https://app.example.com/1', false],
        ['https://app.example.com/past', true],
      ],
    );
  });

  test('says what it leaves out', async () => {
    await api.token('pub');
    await look();
    await publish('widgets', `[${Array(60).fill(EVENT).join(',')}]`);
    assert.equal((await when('', 25)).length, 25);
    await publish(
      'widgets',
      JSON.stringify({ type: 'noop', url: 'https://a.example/', data: 'x'.repeat(3000) }),
    );
    const [newest] = await when('', 26);
    assert.equal(newest?.skipped, 35);
    assert.equal(newest.event, null);
    assert.ok(newest.bytes > 3000);
  });

  test('says nothing of other topics to somebody who begins to watch one', async () => {
    await api.token('pub');
    await look();
    await publish('others', `[${Array(60).fill(EVENT).join(',')}]`);
    await when('', 25);
    await look('?topic=widgets');
    await publish('widgets', EVENT);
    const [entry] = await when('?topic=widgets', 1);
    assert.equal(entry?.skipped, 0);
  });

  test('costs nothing while nobody looks', async () => {
    await api.token('pub');
    await publish('widgets', EVENT);
    await publish('widgets', EVENT);
    assert.deepEqual(await api.store.redis.keys('*tail:*'), []);
  });

  test('is for root and viewers', async () => {
    await api.token('pub');
    assert.equal((await api.call('GET', '/tail', { as: 'pub' })).status, 403);
    const wrong = await api.call('GET', '/tail?topic=NO', { as: 'root' });
    assert.match(problemIn(wrong).detail, /topic must be 1 to 64 characters/);
  });
});
