import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api } from '../../harness/http/api.ts';

const TOKEN = 'old--0123456789abcdef0123456789abcdef';
const EVENT = { type: 'noop', url: 'https://shop.example.com/1' };
const api = new Api();
const headers = { 'sec-fetch-site': 'same-origin', accept: 'text/html' };

test('each link that a client without a secret sees leads to a page', async () => {
  await api.call('POST', '/api_tokens', { as: 'root', body: JSON.stringify({ name: 'old', token: TOKEN }) });
  api.enter({ name: 'old', token: TOKEN });
  for (const [method, path, body] of [
    ['POST', '/subscription', { topics: ['paid'], callback: 'https://old.example.com/', max: 1 }],
    ['PUT', '/joins/ready', { sources: [{ topic: 'paid', count: 5 }], by: 'url', then: { topic: 'ready' } }],
    ['PUT', '/triggers/hourly', { topic: 'paid', event: EVENT, schedule: { every: 3_600_000 } }],
    ['POST', '/topics/paid', EVENT],
  ] as const) {
    const { status, text } = await api.call(method, path, { as: 'old', body: JSON.stringify(body) });
    assert.ok(status < 300, text);
  }
  const login = new URLSearchParams({ user: TOKEN, password: '' }).toString();
  const entered = await api.call('POST', '/console/login', { headers, body: login });
  const [cookie = ''] = entered.headers['set-cookie']?.[0]?.split(';') ?? [];
  const seen = new Set(['/console']);
  for (const path of seen) {
    const page = await fetch(`http://127.0.0.1:${api.port}${path}`, { headers: { ...headers, cookie } });
    const text = await page.text();
    assert.equal(page.status, 200, `${path}: ${/<p>([^<]*)/.exec(text)?.[1]}`);
    for (const [, link = ''] of text.matchAll(/<a [^>]*href="(\/console[^"]*)"/g))
      seen.add(link.replaceAll('&amp;', '&'));
  }
  assert.ok(seen.has(`/console/joins/ready?client=${TOKEN}`), [...seen].join(' '));
});
