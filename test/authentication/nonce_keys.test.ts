import assert from 'node:assert/strict';
import { after, before, mock, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { NonceKeys } from '../../src/authentication/nonce_keys.ts';
import { clock } from '../../src/clock.ts';

let aheadMs = 0;
before(() => mock.method(clock, 'monotonicMs', () => performance.now() + aheadMs));
after(() => mock.reset());
const store = new TestStore();

test('all requests with an unknown nonce wait for the fetch that the first of them begins', async () => {
  const [one, other] = [new NonceKeys(store.store), new NonceKeys(store.store)];
  await Promise.all([one.load(), other.load()]);
  await store.store.redis.del(store.store.keys.digest_keys());
  await one.load();
  const key = one.current();
  assert.ok(key);
  const knows = () => other.find(other.nowMs(), (each) => each.equals(key)) !== undefined;
  aheadMs += 1000;
  const waits = [other.refresh(), other.refresh(), other.refresh()];
  assert.equal(knows(), false);
  await waits[2];
  assert.equal(knows(), true);
});
