import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { describe, type TestContext, test } from 'node:test';
import type { Client } from '../../../src/authentication/client.ts';
import { ClientDirectory } from '../../../src/authentication/client_directory.ts';
import { Credentials, type SecretCheck, sameDigest } from '../../../src/authentication/credentials.ts';
import { ha1 } from '../../../src/authentication/digests.ts';
import { Nonces } from '../../../src/authentication/nonces.ts';

const secretOf = (token: string): Client => ({
  token,
  name: 'billing',
  ha1: { sha256: ha1('SHA-256', token, 'secret'), md5: ha1('MD5', token, 'secret') },
});

/** Resolves with the cost of a wrong attempt: how often Redis was asked, and how many digests were compared. */
async function cost(scheme: 'basic' | 'digest', user: string, known: boolean) {
  let lookups = 0;
  let comparisons = 0;
  const clients = new ClientDirectory({
    find: async (token) => {
      lookups++;
      return token === 'billing--1' ? secretOf(token) : undefined;
    },
  });
  const credentials = new Credentials(['the-root-key'], clients);
  if (known) await clients.find(user);
  lookups = 0;
  const check: SecretCheck = ({ sha256 }) => {
    comparisons++;
    return sameDigest('0'.repeat(64), sha256);
  };
  const verdict = await (scheme === 'basic'
    ? credentials.checkPassword(user, 'wrong')
    : credentials.checkDigest(user, check));
  assert.ok(!('role' in verdict));
  return { lookups, comparisons };
}

describe('a wrong secret costs what an unknown user costs', () => {
  for (const scheme of ['basic', 'digest'] as const) {
    test(`with ${scheme}, whether the client is remembered or not: time does not tell who exists`, async () => {
      const unknown = await cost(scheme, 'nobody--1', true);
      assert.deepEqual(await cost(scheme, 'billing--1', true), unknown);
      assert.deepEqual(await cost(scheme, 'billing--1', false), unknown);
      assert.equal(unknown.lookups, 1);
    });
  }
});

describe('proofs of identity are compared in constant time', () => {
  /** Resolves with the number of calls of timingSafeEqual during `act`. */
  async function comparisons(t: TestContext, act: () => unknown): Promise<number> {
    const { mock } = t.mock.method(crypto, 'timingSafeEqual');
    // Makes named imports of node:crypto use the mock too.
    syncBuiltinESMExports();
    await act();
    mock.restore();
    syncBuiltinESMExports();
    return mock.callCount();
  }
  const client = secretOf('billing--1');
  const credentials = new Credentials(['the-root-key'], new ClientDirectory({ find: async () => client }));

  test('the root key', async (t) => {
    assert.equal(await comparisons(t, () => assert.ok(credentials.isReserved('the-root-key'))), 1);
    assert.equal(await comparisons(t, () => assert.ok(!credentials.isReserved('the-root-kex'))), 1);
    // A token of another length is compared too, because digests are compared.
    assert.equal(await comparisons(t, () => assert.ok(!credentials.isReserved('t'))), 1);
  });

  test('the viewer key too, whichever it is: each text is compared with both', async (t) => {
    const both = new Credentials(['the-root-key'], new ClientDirectory({ find: async () => client }), [
      'to-view',
    ]);
    for (const text of ['the-root-key', 'to-view', 'the-root-kex', 't'])
      assert.equal(await comparisons(t, () => both.isReserved(text)), 2);
    assert.equal(await comparisons(t, () => both.checkPassword('billing--1', 'wrong')), 4);
  });

  test('a password, and the root key before it', async (t) => {
    const check = () => credentials.checkPassword('billing--1', 'wrong');
    assert.equal(await comparisons(t, check), 3, 'against nobody, the root key, and the client');
  });

  test('a response, whose length is public', async (t) => {
    assert.equal(await comparisons(t, () => assert.ok(!sameDigest('ab', 'ac'))), 1);
    assert.equal(await comparisons(t, () => assert.ok(!sameDigest('ab', 'abc'))), 0);
  });

  test('the signature of a nonce', async (t) => {
    const key = Buffer.alloc(32);
    const find = (_: number, signed: (key: Buffer) => boolean) =>
      signed(key) ? { hour: 0, key, replaced: false } : undefined;
    const fetch = async () => {};
    const keys = { nowMs: () => 1000, find, current: () => key, load: fetch, refresh: fetch };
    const nonces = new Nonces(keys, { consume: async () => 'consumed' });
    const forged = `${nonces.issue().slice(0, -2)}AA`;
    assert.equal(await comparisons(t, () => nonces.check(forged)), 1);
  });
});
