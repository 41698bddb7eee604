import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { SHORT_TEXT } from '../../src/json.ts';

const api = new Api({});
const headers = { 'sec-fetch-site': 'same-origin' };

test('a form publishes an event with as much data as one may have: its session is judged again', async () => {
  const [, pair = ''] = (await api.authorization('writer')).split(' ');
  const [user = '', password = ''] = atob(pair).split(':');
  const login = new URLSearchParams({ user, password }).toString();
  const entered = await api.call('POST', '/console/login', { headers, body: login });
  const [cookie = ''] = entered.headers['set-cookie']?.[0]?.split(';') ?? [];
  const { text } = await api.call('GET', '/console/jobs', { headers: { cookie } });
  const [, form_token = ''] = /name="form_token" value="([^"]+)"/.exec(text) ?? [];
  const data = JSON.stringify('x'.repeat(SHORT_TEXT - 2));
  const fields = { form_token, type: 'noop', url: 'https://shop.example.com/1', data };
  const body = new URLSearchParams(fields).toString();
  const published = await api.call('POST', '/console/topics/long/publish', {
    headers: { ...headers, cookie },
    body,
  });
  assert.equal(published.headers.location, '/console/topics/long?done=published', published.text);
  const { redis, keys } = api.store;
  assert.equal(await redis.hget(keys.topic('long'), 'counter'), '1');
});
