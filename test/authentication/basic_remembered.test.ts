import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Basic } from '../../src/authentication/basic.ts';
import type { Client } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { Credentials } from '../../src/authentication/credentials.ts';
import { ha1 } from '../../src/authentication/digests.ts';
import type { Verdict } from '../../src/authentication/verdict.ts';
import { clock } from '../../src/clock.ts';
import { basic } from './guarded_server.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const TOKEN = 'shop--0123456789abcdefghij';
const client = (secret: string, rest: Partial<Client> = {}): Client => ({
  token: TOKEN,
  name: 'shop',
  ha1: { sha256: ha1('SHA-256', TOKEN, secret), md5: ha1('MD5', TOKEN, secret) },
  ...rest,
});
const isLetIn = (verdict: Verdict) => 'role' in verdict;
const scopesIn = (verdict: Verdict) =>
  'role' in verdict && verdict.role === 'client' ? verdict.scopes : undefined;

/** Basic with a directory whose client and clock a test sets. */
class Judge {
  nowMs = 1;
  stored: Client = client('old');
  readonly #directory = new ClientDirectory({
    find: async (token) => (token === TOKEN ? { ...this.stored } : undefined),
  });
  readonly #basic = new Basic(new Credentials(['the-root-key'], this.#directory), this.#directory);

  constructor() {
    // `mock.method` would keep a record of each call, and tests below measure memory.
    clock.monotonicMs = () => this.nowMs;
  }

  async of(authorization: string): Promise<Verdict> {
    return this.#basic.judge({ headers: { authorization } } as IncomingMessage);
  }
}

describe('remembered credentials', () => {
  test('are refused once the secret was replaced, however often they come', async () => {
    const judge = new Judge();
    for (let i = 0; i < 3; i++) assert.ok(isLetIn(await judge.of(basic(TOKEN, 'old'))));
    judge.stored = client('new');
    judge.nowMs += 1001;
    for (let i = 0; i < 3; i++) {
      assert.ok(isLetIn(await judge.of(basic(TOKEN, 'new'))));
      assert.ok(!isLetIn(await judge.of(basic(TOKEN, 'old'))));
    }
  });

  test('have the scopes that the client has now', async () => {
    const judge = new Judge();
    for (let i = 0; i < 3; i++) await judge.of(basic(TOKEN, 'old'));
    judge.stored = client('old', { scopes: { publish: [] } });
    judge.nowMs += 1001;
    for (let i = 0; i < 3; i++)
      assert.deepEqual(scopesIn(await judge.of(basic(TOKEN, 'old'))), { publish: [] });
  });

  for (const [what, padding, wrongLength] of [
    ['long headers, of which the credentials are a short part', 15_900, 0],
    ['lookups for long wrong passwords', 1, 11_600],
  ] as const) {
    test(`do not keep the memory of ${what}`, async () => {
      const judge = new Judge();
      const right = basic(TOKEN, 'old').slice('Basic '.length);
      // Node's HTTP parser makes each header as one flat text.
      const flat = (text: string) => Buffer.from(text, 'latin1').toString('latin1');
      const attack = async (n: number) => {
        judge.nowMs += 1001;
        if (wrongLength > 0) await judge.of(flat(basic(TOKEN, 'x'.repeat(wrongLength))));
        // Node ignores characters that are not Base64, so these are the same credentials in other spellings.
        const spelling = [...n.toString(2)].map((digit) => (digit === '0' ? '!' : '#')).join('');
        const header = `Basic${' '.repeat(padding)}${right}${spelling}`;
        for (let i = 0; i < 2; i++) assert.ok(isLetIn(await judge.of(flat(header))));
      };
      await attack(0);
      collectGarbage();
      const before = process.memoryUsage().heapUsed;
      for (let n = 1; n <= 2000; n++) await attack(n);
      collectGarbage();
      const grownMiB = (process.memoryUsage().heapUsed - before) / 2 ** 20;
      assert.ok(grownMiB < 4, `2,000 spellings keep ${grownMiB.toFixed(1)} MiB`);
    });
  }
});
