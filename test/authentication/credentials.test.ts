import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { Credentials } from '../../src/authentication/credentials.ts';
import { ha1 } from '../../src/authentication/digests.ts';
import type { Verdict } from '../../src/authentication/verdict.ts';

const redis = new TestStore();
const clients = () => new Clients(redis.store, []);

beforeEach(() => redis.flush());

/**
 * Changes a client while its lookup is under way: after Redis was read, and before the reply arrives. Then lets `judge`
 * begin, which finds this lookup under way. Resolves with what `judge` resolves with.
 */
async function duringLookup<Change>(
  token: string,
  change: () => Promise<Change>,
  judge: (credentials: Credentials, changed: Change) => Promise<Verdict>,
): Promise<Verdict> {
  let judged: Promise<Verdict> | undefined;
  let lookups = 0;
  const find = async (asked: string) => {
    const client = await clients().find(asked);
    if (++lookups === 1) {
      const changed = await change();
      judged = judge(credentials, changed);
    }
    return client;
  };
  const credentials = new Credentials(['the-root-key-of-this-test'], new ClientDirectory({ find }));
  await credentials.checkPassword(token, 'anything');
  assert.ok(judged);
  return judged;
}

async function rotated(token: string, graceMs: number): Promise<string> {
  const reply = await clients().rotate(token, graceMs);
  assert.ok(typeof reply === 'object');
  return reply.secret;
}

describe('a credential that became valid while an earlier request looked its client up is right', () => {
  for (const graceMs of [0, 60_000])
    test(`a new secret, with ${graceMs} ms of grace for the former one`, async () => {
      const { token } = await clients().create('billing');
      const caller = { role: 'client', token, name: 'billing' };
      const rotate = () => rotated(token, graceMs);
      assert.deepEqual(
        await duringLookup(token, rotate, (credentials, secret) => credentials.checkPassword(token, secret)),
        caller,
      );
      assert.deepEqual(
        await duringLookup(token, rotate, (credentials, secret) =>
          credentials.checkDigest(token, ({ sha256 }) => sha256 === ha1('SHA-256', token, secret)),
        ),
        caller,
      );
    });

  test('the token of a client that was registered', async () => {
    assert.deepEqual(
      await duringLookup(
        'billing',
        () => clients().register('billing', 'billing'),
        (credentials) => credentials.checkPassword('billing', ''),
      ),
      { role: 'client', token: 'billing', name: 'billing' },
    );
  });
});

test('wrong credentials that come at once share a lookup', async () => {
  const { token } = await clients().create('billing');
  let lookups = 0;
  const find = (asked: string) => {
    lookups++;
    return clients().find(asked);
  };
  const credentials = new Credentials(['the-root-key-of-this-test'], new ClientDirectory({ find }));
  for (const user of [token, token, 'nobody']) {
    lookups = 0;
    const guesses = Array.from({ length: 50 }, (_, n) => credentials.checkPassword(user, `guess ${n}`));
    for (const verdict of await Promise.all(guesses)) assert.ok('reason' in verdict);
    assert.equal(lookups, 2, user === token ? 'a client' : 'an unknown user');
  }
});
