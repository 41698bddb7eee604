import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';

const api = new Api({ env: { ROUTEMASTER_MAX_SUBSCRIPTION_TOPICS: '2000' } });
const browser = { 'sec-fetch-site': 'same-origin' };
/** The longest data that an event may have: 65,536 bytes as JSON. */
const LONGEST = [
  ['of ASCII', JSON.stringify('x'.repeat(65_534))],
  ['that a form encodes as three times as much', JSON.stringify('é'.repeat(32_767))],
] as const;

describe('a form takes as much as the API does:', () => {
  let headers: Record<string, string> = {};
  let form_token = '';

  async function send(path: string, fields: Record<string, string>): Promise<string | undefined> {
    const body = new URLSearchParams({ form_token, ...fields }).toString();
    return (await api.call('POST', path, { headers, body })).headers.location;
  }

  beforeEach(async () => {
    const [, pair = ''] = (await api.authorization('writer')).split(' ');
    const [user = '', password = ''] = atob(pair).split(':');
    const login = new URLSearchParams({ user, password }).toString();
    const entered = await api.call('POST', '/console/login', { headers: browser, body: login });
    const [cookie = ''] = entered.headers['set-cookie']?.[0]?.split(';') ?? [];
    headers = { ...browser, cookie };
    const { text } = await api.call('GET', '/console/jobs', { headers });
    [, form_token = ''] = /name="form_token" value="([^"]+)"/.exec(text) ?? [];
  });

  for (const [index, [what, data]] of LONGEST.entries()) {
    test(`it publishes data ${what}: its session is judged again`, async () => {
      const topic = `long_${index}`;
      const event = { type: 'noop', url: 'https://shop.example.com/1', data };
      const location = await send(`/console/topics/${topic}/publish`, event);
      assert.equal(location, `/console/topics/${topic}?done=published`);
      const { redis, keys } = api.store;
      assert.equal(await redis.hget(keys.topic(topic), 'counter'), '1');
    });

    test(`it stores a trigger with data ${what}`, async () => {
      const name = `long_${index}`;
      const rules = `{"topic":"${name}","event":{"type":"noop","url":"https://shop.example.com/1","data":${data}},"schedule":{"every":60000}}`;
      const location = await send('/console/triggers', { name, rules });
      assert.equal(location, `/console/triggers/${name}`);
    });
  }

  test('it changes a subscription to as many topics, with long names, as a client may have', async () => {
    const topics = Array.from({ length: 2000 }, (_, n) => `${'x'.repeat(60)}${1000 + n}`);
    const callback = 'https://93.184.216.34/events';
    const subscribed = await api.call('POST', '/subscription', {
      as: 'writer',
      body: JSON.stringify({ topics, callback, uuid: 'me' }),
    });
    assert.equal(subscribed.status, 204, subscribed.text);
    const page = `/console/subscribers/${await api.token('writer')}`;
    const { text } = await api.call('GET', page, { headers });
    const numbers = [...text.matchAll(/ name="(\w+)" value="(\d+)" type="number"/g)];
    const settings = Object.fromEntries(numbers.map(([, name = '', value = '']) => [name, value]));
    const typed = { ...settings, topics: topics.join('\r\n'), callback, timeout: '1234' };
    assert.equal(await send(`${page}/settings`, typed), page);
    assert.match((await api.call('GET', '/subscriptions', { as: 'writer' })).text, /"timeout":1234,/);
  });

  test('it changes a trigger whose data the page has indented as far as it does', async () => {
    const deep = `${'['.repeat(6)}${'1,'.repeat(7900)}1${']'.repeat(6)}`;
    const event = { type: 'noop', url: 'https://shop.example.com/1', data: JSON.parse(deep) };
    const trigger = { topic: 'indented', event, schedule: { every: 60_000 } };
    const put = { as: 'writer', body: JSON.stringify(trigger) };
    assert.equal((await api.call('PUT', '/triggers/indented', put)).status, 201);
    const { text } = await api.call('GET', '/console/triggers/indented', { headers });
    const [, rules = ''] = /<textarea name="rules"[^>]*>([^<]*)/.exec(text) ?? [];
    const [, was = ''] = /name="was" value="([^"]+)"/.exec(text) ?? [];
    // Browsers send line ends as CR and LF.
    const sent = rules.replaceAll('&quot;', '"').replaceAll('\n', '\r\n');
    assert.ok(sent.length > 131_072, `${sent.length}`);
    const location = await send('/console/triggers', { name: 'indented', rules: sent, was });
    assert.equal(location, '/console/triggers/indented');
  });
});
