import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readAnswer } from '../../../src/authentication/digest_answer.ts';
import { Proxies } from '../../../src/routing/proxies.ts';
import { GuardedServer } from '../../authentication/guarded_server.ts';

/** Makers of headers of any length that a careless parser would read over and over. */
const HOSTILE: Record<string, (length: number) => string> = {
  commas: (length) => ','.repeat(length),
  'commas and spaces': (length) => ', '.repeat(length / 2),
  spaces: (length) => `a${' '.repeat(length)}x`,
  tabs: (length) => `a="1"${' \t'.repeat(length / 2)}x`,
  'an open quote with escapes': (length) => `a="${'\\"'.repeat(length / 2)}`,
  'an open quote with backslashes': (length) => `a="${'\\\\'.repeat(length)}`,
  'a long token': (length) => 'a'.repeat(length),
  equals: (length) => `a${'='.repeat(length)}`,
  'a quoted value': (length) => `username="${'x'.repeat(length)}"`,
  'many parameters': (length) => Array.from({ length: length / 8 }, (_, i) => `p${i}=1`).join(','),
};

/** Returns the shortest of 30 measured times, in ms. It is the time when nothing else runs. */
function leastMs(act: () => void): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 30; i++) {
    const startedMs = performance.now();
    act();
    least = Math.min(least, performance.now() - startedMs);
  }
  return least;
}

function read(text: string): void {
  try {
    readAnswer(text);
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'bad_header', String(error));
  }
}

describe('a Digest header takes time in proportion to its length:', () => {
  for (const [name, make] of Object.entries(HOSTILE)) {
    test(name, () => {
      const [short, long] = [make(16 * 1024), make(16 * 16 * 1024)];
      const shortMs = leastMs(() => read(short));
      const longMs = leastMs(() => read(long));
      // With 16 times the text, a reader of quadratic cost needs 256 times as long. Below 5 ms a ratio means nothing.
      assert.ok(longMs < Math.max(64 * shortMs, 5), `${shortMs} ms for 16 KiB, ${longMs} ms for 256 KiB`);
    });
  }
});

test('X-Forwarded-For takes time in proportion to its length', () => {
  const proxies = new Proxies(1);
  const from = (header: string) => () =>
    proxies.addressOf({ headers: { 'x-forwarded-for': header }, socket: {} } as never);
  const [shortMs, longMs] = [16, 256].map((kib) => leastMs(from(','.repeat(kib * 1024)))) as [number, number];
  assert.ok(longMs < Math.max(64 * shortMs, 10), `${shortMs} ms for 16 KiB, ${longMs} ms for 256 KiB`);
});

describe('an Authorization header', () => {
  const server = new GuardedServer();

  test('is answered 400 or 401 if it is malformed, and the next request is served', async () => {
    for (const make of Object.values(HOSTILE)) {
      const { status } = await server.get('/client', `Digest ${make(4 * 1024).replaceAll('\n', '')}`);
      assert.ok([400, 401].includes(status), String(status));
    }
    assert.equal((await server.get('/client')).status, 401);
  });

  test('with qop=auth-int or without qop is refused with the supported qop', async () => {
    for (const qop of ['qop=auth-int, ', 'qop="auth,auth-int", ', '']) {
      const text = `Digest ${qop}username="a", realm="Routemaster", nonce="n", uri="/client", nc=00000001, cnonce="c", response="${'0'.repeat(64)}"`;
      const { status, body } = await server.get('/client', text);
      assert.deepEqual([status, body.code], [400, 'bad_header']);
      assert.match(String(body.detail), /qop must be auth$/);
    }
  });
});
