import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { Api, problemIn } from '../../harness/http/api.ts';
import { readConfig } from '../../src/config.ts';
import { sampleJob } from '../../src/maintenance/sampling.ts';
import { Partitions } from '../../src/store/partitions.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const CALLBACK = 'https://sub.example.com/';

describe('GET /history', () => {
  const api = new Api();
  let [pub, sub] = ['', ''];
  const get = async (query: string, as = 'root') => {
    const { status, text } = await api.call('GET', `/history${query}`, { as });
    return { status, body: JSON.parse(text) };
  };

  before(async () => {
    [pub, sub] = [await api.token('pub'), await api.token('sub')];
    const body = JSON.stringify({ topics: ['widgets'], callback: CALLBACK, timeout: 60_000 });
    await api.call('POST', '/subscription', { as: 'sub', body });
    await api.call('POST', '/topics/widgets', { as: 'pub', body: EVENT });
    const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'root' });
    await sampleJob({ config, partitions: new Partitions(api.store), log: capturedLog().log })();
  });

  test('answers all metrics of the bus for an hour', async () => {
    const { status, body } = await get('');
    assert.equal(status, 200);
    const { metrics, start, ...rest } = body;
    assert.deepEqual(rest, { subject: 'bus', range: '1h', step: 10_000 });
    assert.ok(Math.abs(start + 360 * 10_000 - Date.now()) < 60_000);
    assert.deepEqual(Object.keys(metrics), [
      ...['published', 'delivered', 'failed', 'queued', 'oldest', 'latency', 'memory', 'dead'],
    ]);
    assert.equal(metrics.published.values.length, 360);
    assert.equal(metrics.published.unit, 'events/s');
  });

  test('answers one metric of a topic for two days', async () => {
    const { body } = await get('?subject=topic:widgets&metric=published&range=48h', 'sub');
    assert.equal(body.step, 300_000);
    assert.deepEqual(Object.keys(body.metrics), ['published']);
    assert.equal(body.metrics.published.values.length, 576);
  });

  test('shows clients their own subscriptions alone, root and viewers all', async () => {
    for (const [as, status] of [
      ['root', 200],
      ['viewer', 200],
      ['sub', 200],
      ['pub', 403],
    ] as const)
      assert.equal((await get(`?subject=subscriber:${sub}`, as)).status, status, as);
    assert.equal((await api.call('GET', '/history')).status, 401);
  });

  test('shows a join to its client, root and viewers, to each by the name that it sees', async () => {
    const hidden = JSON.stringify({ name: 'hider', token: 'hider--has-no-secret' });
    api.enter(JSON.parse((await api.call('POST', '/api_tokens', { as: 'root', body: hidden })).text));
    for (const as of ['joiner', 'hider']) {
      const token = await api.token(as);
      const sources = [{ topic: 'paid' }, { topic: 'packed' }];
      const body = JSON.stringify({ sources, by: 'url', then: { topic: `${as}s` } });
      assert.equal((await api.call('PUT', `/joins/${as}`, { as, body })).status, 201);
      const { text } = await api.call('GET', '/joins', { as: 'viewer' });
      const { client } = JSON.parse(text).find(({ name }: { name: string }) => name === as);
      for (const [who, name] of [
        [as, token],
        ['root', token],
        ['viewer', client],
      ])
        assert.equal((await get(`?subject=subscriber:join:${as}:${name}`, who)).status, 200, `${who} ${as}`);
      assert.equal((await get(`?subject=subscriber:join:${as}:${token}`, 'pub')).status, 403);
    }
    const guess = await get('?subject=subscriber:join:hider:hider--has-no-secret', 'viewer');
    assert.equal(guess.status, 404, 'a viewer cannot test guesses at a token');
  });

  test('says what is wrong', async () => {
    for (const [query, code, detail] of [
      ['?subject=subscriber:nobody', 'subscriber_not_found', /no such subscriber/],
      [`?subject=subscriber:${pub}`, 'subscriber_not_found', /no such subscriber/],
      ['?subject=topic:nothing', 'topic_not_found', /there is no topic nothing/],
      [
        '?subject=everything',
        'bad_query',
        /subject must be bus, topic: and a name, or subscriber: and a token/,
      ],
      ['?metric=speed', 'bad_query', /metric must be one of published, /],
      [
        '?subject=topic:widgets&metric=queued',
        'bad_query',
        /metric must be one of published for this subject/,
      ],
      ['?range=1y', 'bad_query', /range must be one of 1h, 24h, 48h/],
    ] as const) {
      const answer = await api.call('GET', `/history${query}`, { as: 'root' });
      const problem = problemIn(answer);
      assert.equal(problem.code, code, query);
      assert.match(problem.detail, detail);
    }
  });
});
