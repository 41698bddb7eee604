import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Client } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { clock } from '../../src/clock.ts';

const billing: Client = { token: 'billing', name: 'billing', ha1: null };

/** A directory over clients that answer when told to, with a clock that stands still. */
class Rig {
  nowMs = 1;
  readonly asked: { token: string; answer: (client?: Client) => void; fail: (error: Error) => void }[] = [];
  readonly directory = new ClientDirectory({ find: (token) => this.#find(token) });

  constructor(t: TestContext) {
    t.mock.method(clock, 'monotonicMs', () => this.nowMs);
  }

  #find(token: string): Promise<Client | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<Client | undefined>();
    this.asked.push({ token, answer: resolve, fail: reject });
    return promise;
  }
}

test('the directory reads a client once for all lookups at the same time and in the next second', async (t) => {
  const rig = new Rig(t);
  const found = [rig.directory.find('billing'), rig.directory.find('billing')];
  assert.equal(rig.directory.cached('billing'), undefined);
  rig.asked[0]?.answer(billing);
  assert.deepEqual(await Promise.all(found), [billing, billing]);
  rig.nowMs = 1001;
  assert.equal(await rig.directory.find('billing'), billing);
  assert.equal(rig.directory.cached('billing'), billing);
  assert.equal(rig.asked.length, 1);
});

test('the directory counts the second from the start of the lookup, and reads again after it', async (t) => {
  const rig = new Rig(t);
  const found = rig.directory.find('billing');
  rig.nowMs = 600;
  rig.asked[0]?.answer(billing);
  await found;
  rig.nowMs = 1002;
  assert.equal(rig.directory.cached('billing'), undefined);
  const again = rig.directory.find('billing');
  rig.asked[1]?.answer(undefined);
  assert.equal(await again, undefined);
});

test('the directory does not share a lookup older than a second, since its answer may precede a removal', async (t) => {
  const rig = new Rig(t);
  const slow = rig.directory.find('billing');
  rig.nowMs = 1002;
  const quick = rig.directory.find('billing');
  rig.asked[1]?.answer(undefined);
  assert.equal(await quick, undefined);
  rig.asked[0]?.answer(billing);
  assert.equal(await slow, billing);
  assert.equal(rig.directory.cached('billing'), undefined);
});

test('the directory remembers neither unknown tokens nor failures', async (t) => {
  const rig = new Rig(t);
  const unknown = rig.directory.find('nobody');
  rig.asked[0]?.answer(undefined);
  assert.equal(await unknown, undefined);
  const failed = rig.directory.find('nobody');
  rig.asked[1]?.fail(new Error('away'));
  await assert.rejects(failed, /away/);
  void rig.directory.find('nobody');
  assert.equal(rig.asked.length, 3);
});

test('the directory remembers the latest 10,000 clients', async (t) => {
  t.mock.method(clock, 'monotonicMs', () => 1);
  const directory = new ClientDirectory({ find: async (token) => ({ ...billing, token }) });
  for (let index = 0; index <= 10_000; index += 1) await directory.find(`billing--${index}`);
  assert.equal(directory.cached('billing--0'), undefined);
  assert.equal(directory.cached('billing--1')?.token, 'billing--1');
  assert.equal(directory.cached('billing--10000')?.token, 'billing--10000');
});
