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
  const api = new Api();

  test('of as many fields as fit into it, by a stranger, does not hold up the process', async () => {
    const body = fields(MAX_BODY_BYTES / 4);
    const { status, tookMs } = await api.call('POST', '/console/login', { headers, body });
    assert.ok(status === 400 && tookMs < MAX_MS, `${status} after ${tookMs} ms`);
  });

  test('may have a thousand selected things', async () => {
    const body = `${'a=1&'.repeat(1000)}user=nobody&password=wrong`;
    assert.equal((await api.call('POST', '/console/login', { headers, body })).status, 401);
  });
});
