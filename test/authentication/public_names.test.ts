import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Clients } from '../../src/authentication/client.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';

const redis = new TestStore();
const FIXED = 'fixed--1';

const clients = () => new Clients(redis.store, [FIXED]);
const nameOf = async (token: string) => (await new PublicNames(clients()).of([token]))(token);
const short = (token: string) => createHash('sha256').update(token).digest('hex').slice(0, 8);

beforeEach(() => redis.flush());

test('a client with a secret is shown by its token', async () => {
  const { token } = await clients().create('billing');
  assert.equal(await nameOf(token), token);
});

test('a token that is a credential is never shown', async () => {
  await clients().register('other', 'other--secret');
  assert.equal(await nameOf('other--secret'), `other.${short('other--secret')}`);
  assert.equal(await nameOf(FIXED), `fixed.${short(FIXED)}`);
});

test('a client that lost its secret has a token that is a credential', async () => {
  const { token } = await clients().create('billing');
  await clients().register('billing', token);
  assert.equal(await nameOf(token), `billing.${short(token)}`);
});

test('a client that was removed or not looked up is unknown', async () => {
  const { token } = await clients().create('billing');
  await clients().remove(token);
  assert.equal(await nameOf(token), `unknown.${short(token)}`);
  assert.equal((await new PublicNames(clients()).of([]))('x'), `unknown.${short('x')}`);
});

test('each client is looked up once', async () => {
  const asked: string[] = [];
  const find = async (token: string) => {
    asked.push(token);
    return undefined;
  };
  await new PublicNames({ find }).of(['a', 'b', 'a']);
  assert.deepEqual(asked, ['a', 'b']);
});
