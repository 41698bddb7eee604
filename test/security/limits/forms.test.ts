import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Api } from '../../../harness/http/api.ts';
import { MAX_BODY_BYTES } from '../../../src/routing/route.ts';

const MAX_MS = 1000;
const headers = { 'sec-fetch-site': 'same-origin' };

/** Returns a form of `count` fields. Each has a name of its own, of three characters. */
function fields(count: number): string {
  return Array.from({ length: count }, (_, n) => (n + 36 ** 2).toString(36)).join('&');
}

describe('a form', () => {
  const api = new Api({ env: { ROUTEMASTER_CALL_RATE: '2' } });

  test('of as many fields as fit into it, by a stranger, does not hold up the process', async () => {
    const body = fields(MAX_BODY_BYTES / 4);
    const { status, tookMs } = await api.call('POST', '/console/login', { headers, body });
    assert.ok(status === 400 && tookMs < MAX_MS, `${status} after ${tookMs} ms`);
  });

  test('may have a thousand selected things', async () => {
    const body = `${'a=1&'.repeat(1000)}user=nobody&password=wrong`;
    assert.equal((await api.call('POST', '/console/login', { headers, body })).status, 401);
  });

  test('costs a client a call for each thing that is selected', async () => {
    const [, pair = ''] = (await api.authorization('clicker')).split(' ');
    const [user = '', password = ''] = atob(pair).split(':');
    const login = new URLSearchParams({ user, password }).toString();
    const entered = await api.call('POST', '/console/login', { headers, body: login });
    const [cookie = ''] = entered.headers['set-cookie']?.[0]?.split(';') ?? [];
    const { text } = await api.call('GET', '/console/jobs', { headers: { cookie } });
    const [, token] = /name="form_token" value="([^"]+)"/.exec(text) ?? [];
    const ids = Array.from({ length: 30 }, (_, n) => `id=${String(n).padStart(20, 'A')}`).join('&');
    const body = `form_token=${token}&do=purge&${ids}`;
    const selected = () =>
      api.call('POST', '/console/dead_letters/selected', { headers: { ...headers, cookie }, body });
    assert.equal((await selected()).status, 200);
    assert.equal((await selected()).status, 429);
  });
});
