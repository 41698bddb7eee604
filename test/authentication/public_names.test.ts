import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { clock } from '../../src/clock.ts';

const redis = new TestStore();
const FIXED = 'fixed--1';
const HIDDEN = /^(\w+)\.([0-9a-f]{16})$/;

const clients = () => new Clients(redis.store, [FIXED]);
const key = () => new NameKey(redis.store);
const nameOf = async (token: string, names = new PublicNames(clients(), key())) =>
  (await names.of([token]))(token);
const hiddenAs = async (token: string) => HIDDEN.exec(await nameOf(token))?.[1];

beforeEach(() => redis.flush());

describe('a public name', () => {
  test('of a client with a secret is its token', async () => {
    const { token } = await clients().create('billing');
    assert.equal(await nameOf(token), token);
  });

  test('hides a token that is a credential', async () => {
    await clients().register('other', 'other--secret');
    assert.equal(await hiddenAs('other--secret'), 'other');
    assert.equal(await hiddenAs(FIXED), 'fixed');
  });

  test('of a client that was removed or not looked up is unknown', async () => {
    const { token } = await clients().create('billing');
    await clients().remove(token);
    assert.equal(await hiddenAs(token), 'unknown');
    assert.match((await new PublicNames(clients(), key()).of([]))('x'), /^unknown\.[0-9a-f]{16}$/);
  });

  test('cannot be found by trying tokens without the key of the bus', async () => {
    const digits = HIDDEN.exec(await nameOf(FIXED))?.[2] as string;
    for (const algorithm of ['sha256', 'sha1', 'md5']) assert.ok(!hash(algorithm, FIXED).includes(digits));
    await redis.flush();
    assert.doesNotMatch(await nameOf(FIXED), new RegExp(digits));
  });

  test('is the same in all processes, whichever asks first', async () => {
    const names = await Promise.all(Array.from({ length: 5 }, () => nameOf(FIXED)));
    assert.equal(new Set(names).size, 1);
  });

  test('stays when Redis has lost its key', async (t) => {
    let aheadMs = 0;
    t.mock.method(clock, 'monotonicMs', () => performance.now() + aheadMs);
    const names = new PublicNames(clients(), key());
    const before = await nameOf(FIXED, names);
    await redis.flush();
    aheadMs = 60_000;
    assert.equal(await nameOf(FIXED, names), before);
    assert.equal(await nameOf(FIXED), before);
  });
});

test('each client is looked up once', async () => {
  const asked: string[] = [];
  const find = async (token: string) => {
    asked.push(token);
    return undefined;
  };
  await new PublicNames({ find }, key()).of(['a', 'b', 'a']);
  assert.deepEqual(asked, ['a', 'b']);
});
