import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { beforeEach, describe, test } from 'node:test';
import { MeddlingProxy, piece } from '../../harness/meddling_proxy.ts';
import { openStore, TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { Clients } from '../../src/authentication/client.ts';
import { addCopy, repairCopies } from '../../src/authentication/client_copies.ts';
import { ha1 } from '../../src/authentication/digests.ts';
import { StorageFull, StorageLost, StorageUnavailable } from '../../src/errors.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const ruby = 'legacy--0123456789abcdef0123456789abcdef';

const clients = (fixed: string[] = []) => new Clients(redis.store, fixed);
const listed = async (fixed?: string[]) => {
  const all = await clients(fixed).read((await clients(fixed).sorted()).map(([token]) => token));
  return all.map(({ created_at: _, secret_at: __, last_seen_at: ___, ...client }) => client);
};
const stored = (key: string) => redis.store.redis.hgetall(key);

beforeEach(() => redis.flush());

test('an HA1 is the digest of user, realm and secret', () => {
  const text = 'billing--1:Routemaster:s3cret';
  assert.equal(ha1('SHA-256', 'billing--1', 's3cret'), createHash('sha256').update(text).digest('hex'));
  assert.equal(ha1('MD5', 'billing--1', 's3cret'), createHash('md5').update(text).digest('hex'));
});

describe('a client that the bus makes', () => {
  test('has a token that begins with its name, and a secret', async () => {
    const made = await clients().create('billing');
    assert.match(made.token, /^billing--[a-z0-9]{20}$/);
    assert.match(made.secret, /^[\w-]{32}$/);
    const again = await clients().create('billing');
    assert.notEqual(again.token, made.token);
    assert.notEqual(again.secret, made.secret);
  });

  test('is stored with digests of its secret, without the secret', async () => {
    const { token, secret } = await clients().create('billing');
    assert.deepEqual(await stored('api_tokens:by_token'), { [token]: 'billing' });
    const { created_at, ...digests } = await stored(`api_token:${token}`);
    assert.deepEqual(digests, {
      ha1_sha256: ha1('SHA-256', token, secret),
      ha1_md5: ha1('MD5', token, secret),
    });
    assert.ok(Math.abs(Number(created_at) - Date.now()) < 60_000);
    assert.deepEqual((await redis.store.redis.keys('*')).sort(), [
      `api_token:${token}`,
      'api_tokens:by_token',
    ]);
  });

  test('is found with its digests', async () => {
    const { token, secret } = await clients().create('billing');
    const digests = { sha256: ha1('SHA-256', token, secret), md5: ha1('MD5', token, secret) };
    assert.deepEqual(await clients().find(token), { token, name: 'billing', ha1: digests });
  });
});

describe('a client with a token of its own choosing', () => {
  test('is token-only', async () => {
    assert.equal((await clients().register('other', 'other--1')).outcome, 'ok');
    assert.deepEqual(await clients().find('other--1'), { token: 'other--1', name: 'other', ha1: null });
  });

  test('gets the name and the scopes of the last registration', async () => {
    await clients().register('billing', 'billing--1', { publish: ['invoices'], subscribe: [] });
    const { created_at } = await stored('api_token:billing--1');
    await clients().register('other', 'billing--1', { subscribe: ['orders'] });
    assert.deepEqual(await listed(), [{ token: 'billing--1', name: 'other', subscribe: ['orders'] }]);
    assert.deepEqual(await stored('api_token:billing--1'), { created_at, subscribe: 'orders' });
  });

  test('never takes the token of a client with a secret, which is public', async () => {
    const { token } = await clients().create('billing');
    const before = await clients().find(token);
    assert.equal((await clients().register('other', token)).outcome, 'has_secret');
    await clients().rotate(token, 60_000);
    assert.equal((await clients().register('other', token, { publish: [] })).outcome, 'has_secret');
    assert.deepEqual(await listed(), [{ token, name: 'billing' }]);
    assert.deepEqual((await clients().find(token))?.former, before?.ha1);
  });

  test('may be that of a client that was removed half-way', async () => {
    const { token } = await clients().create('billing');
    await redis.store.redis.hdel('api_tokens:by_token', token);
    assert.equal((await clients().register('other', token)).outcome, 'ok');
    assert.deepEqual(await clients().find(token), { token, name: 'other', ha1: null });
  });
});

test('a client that the Ruby Routemaster stored is token-only', async () => {
  await redis.store.redis.hset('api_tokens:by_token', ruby, 'legacy');
  assert.deepEqual(await clients().find(ruby), { token: ruby, name: 'legacy', ha1: null });
});

test('a client with only one digest is not token-only', async () => {
  await redis.store.redis.hset('api_tokens:by_token', 'half', 'half');
  await redis.store.redis.hset('api_token:half', 'ha1_md5', 'ab');
  assert.deepEqual((await clients().find('half'))?.ha1, { sha256: '', md5: 'ab' });
});

test('clients are listed by name, then by token', async () => {
  assert.deepEqual(await listed(), []);
  for (const [name, token] of [
    ['b', '1'],
    ['a', '3'],
    ['a', '2'],
    ['a_', '0'],
  ] as const) {
    await clients().register(name, token);
  }
  assert.deepEqual(await listed(), [
    { token: '2', name: 'a' },
    { token: '3', name: 'a' },
    { token: '0', name: 'a_' },
    { token: '1', name: 'b' },
  ]);
});

test('a removed client leaves nothing behind; removing it again succeeds', async () => {
  const { token } = await clients().create('billing');
  assert.equal(await clients().remove(token), true);
  assert.equal(await clients().remove(token), false);
  assert.equal(await clients().find(token), undefined);
  assert.deepEqual(await redis.store.redis.keys('*'), []);
});

test('a client that is removed during its lookup is unknown, never token-only', async (t) => {
  const { token } = await clients().create('billing');
  const proxy = await MeddlingProxy.toRedis(redis.redis.socketPath ?? '');
  t.after(() => proxy.stop());
  const slow = await openStore(proxy.url);
  t.after(() => slow.redis.disconnect());
  let removed = false;
  void proxy.strike(piece('request', 'api_tokens:by_token'), {
    splitBefore: 'api_tokens:by_token',
    first: async () => {
      removed = await clients().remove(token);
    },
  });
  assert.equal(await new Clients(slow, []).find(token), undefined);
  assert.ok(removed);
});

describe('clients of ROUTEMASTER_CLIENTS', () => {
  test('are found without Redis, token-only, by the name in their token', async () => {
    const redisOfNobody = await openStore(redis.redis.url);
    redisOfNobody.redis.disconnect();
    const fixed = new Clients(redisOfNobody, ['demo', 'Some Thing', ruby]);
    assert.deepEqual(await fixed.find(ruby), { token: ruby, name: 'legacy', ha1: null });
    assert.deepEqual(await fixed.find('demo'), { token: 'demo', name: 'unnamed', ha1: null });
    assert.deepEqual(await fixed.find('Some Thing'), { token: 'Some Thing', name: 'unnamed', ha1: null });
    assert.equal(fixed.isFixed('demo'), true);
    assert.equal(fixed.isFixed('other'), false);
    await assert.rejects(fixed.find('other'), StorageUnavailable);
  });

  test('are not listed', async () => {
    assert.deepEqual(await listed(['demo']), []);
  });
});

test('when Redis is full, making a client fails and stores nothing; finding and removing one work', async () => {
  const { token } = await clients().create('billing');
  await redis.store.redis.config('SET', 'maxmemory', '1');
  try {
    await assert.rejects(clients().create('billing'), StorageFull);
    await assert.rejects(clients().register('billing', 'mine'), StorageFull);
    assert.equal((await clients().find(token))?.token, token);
    assert.equal(await clients().remove(token), true);
  } finally {
    await redis.store.redis.config('SET', 'maxmemory', '0');
  }
  assert.deepEqual(await redis.store.redis.keys('*'), []);
});

describe('with several partitions', () => {
  let partitions: Partitions;
  let others: Partition[];
  const changing = () => new Clients(partitions.control, [], others);
  const known = (partition: Partition) => partition.redis.hgetall(partition.keys.api_tokens());
  const fieldsOf = (partition: Partition, token: string) =>
    partition.redis.hkeys(partition.keys.api_token(token));

  beforeEach(() => {
    partitions = Partitions.on(redis.store.redis, { partitions: 3 });
    others = partitions.all.slice(1);
  });

  test('a client is known in all of them, its secret only in the control partition', async () => {
    const { token } = await changing().create('billing', { publish: ['a*'] });
    for (const each of partitions.all) assert.deepEqual(await known(each), { [token]: 'billing' });
    for (const each of others) assert.deepEqual(await fieldsOf(each, token), ['created_at', 'publish']);
    assert.ok((await changing().find(token))?.ha1);
    assert.equal(await changing().remove(token), true);
    await changing().removeCopies(token);
    assert.deepEqual(await redis.store.redis.keys('*'), []);
  });

  test('a client without a secret that the bus makes is made once, even if another partition fails', async () => {
    const [near] = others as [Partition];
    near.run = () => Promise.reject(new StorageFull());
    const { token } = await changing().createWithoutSecret('billing', { publish: ['a*'] });
    assert.deepEqual(await known(partitions.control), { [token]: 'billing' });
    assert.deepEqual(await changing().find(token), {
      ...{ token, name: 'billing', ha1: null, scopes: { publish: ['a*'] } },
    });
    assert.deepEqual(await known(others[1] as Partition), { [token]: 'billing' });
  });

  test('narrower scopes and the removal end what it has in each', async () => {
    await changing().register('shop', ruby);
    for (const partition of others) {
      await new Bus(() => partition).subscribe(ruby, { topics: ['widgets', 'gadgets'] });
      await putTrigger(partition, 'hourly', { client: ruby, topic: 'widgets' });
    }
    await changing().register('shop', ruby, { subscribe: ['gadgets'] });
    for (const { redis, keys } of others)
      assert.deepEqual(await redis.smembers(keys.subscriber_topics(ruby)), ['gadgets']);
    await changing().removeCopies(ruby);
    for (const { redis, keys } of others) assert.equal(await redis.zcard(keys.triggers_due()), 0);
  });

  test('an empty name, which only another program writes, is copied like any other', async () => {
    const { redis, keys } = partitions.control;
    await redis.hset(keys.api_tokens(), ruby, '');
    const limited = await changing().register(undefined, ruby, { publish: ['a*'] });
    assert.deepEqual(limited, { outcome: 'ok', name: '', ended: [] });
    for (const each of others) {
      assert.deepEqual(await known(each), { [ruby]: '' });
      assert.deepEqual(await fieldsOf(each, ruby), ['created_at', 'publish']);
    }
  });

  const begin = () => partitions.control.redis.set(partitions.control.keys.schema(), 2);

  test('a sweep completes a change that was cut off', async () => {
    await begin();
    const [near, far] = others as [Partition, Partition];
    const cutOff = new Clients(partitions.control, [], [near]);
    const all = new AbortController().signal;
    const made = await cutOff.create('made');
    await changing().register('narrowed', 'narrowed--1');
    await cutOff.register('narrowed', 'narrowed--1', { publish: ['a'] });
    await changing().register('removed', 'removed--1');
    await putTrigger(far, 'hourly', { client: 'removed--1' });
    await cutOff.remove('removed--1');
    assert.deepEqual((await repairCopies(partitions.control, far, all)).ended, []);
    assert.deepEqual(await known(far), { [made.token]: 'made', 'narrowed--1': 'narrowed' });
    assert.equal(await far.redis.hget(far.keys.api_token('narrowed--1'), 'publish'), 'a');
    assert.equal(await far.redis.zcard(far.keys.triggers_due()), 0);
  });

  test('a sweep removes what it must also from a partition that has no memory for what it lacks', async () => {
    await begin();
    const [near] = others as [Partition];
    const cutOff = new Clients(partitions.control, []);
    await changing().register('removed', 'removed--1');
    await putTrigger(near, 'hourly', { client: 'removed--1' });
    await cutOff.remove('removed--1');
    await cutOff.create('made');
    const full = Object.create(near, {
      run: {
        value: (...args: Parameters<Partition['run']>) =>
          args[0] === 'register_client' ? Promise.reject(new StorageFull()) : near.run(...args),
      },
    }) as Partition;
    await assert.rejects(repairCopies(partitions.control, full, new AbortController().signal), StorageFull);
    assert.deepEqual(await known(near), {});
    assert.equal(await near.redis.zcard(near.keys.triggers_due()), 0);
  });

  test('a sweep removes nothing while the control partition has lost its data', async () => {
    const [near] = others as [Partition];
    await changing().register('shop', 'shop');
    await putTrigger(near, 'hourly');
    const { control } = partitions;
    const backup = await control.redis.dumpBuffer(control.keys.api_tokens());
    await control.redis.del(control.keys.api_tokens(), control.keys.api_token('shop'));
    const all = new AbortController().signal;
    await assert.rejects(repairCopies(control, near, all), StorageLost);
    assert.deepEqual(await known(near), { shop: 'shop' });
    assert.equal(await near.redis.zcard(near.keys.triggers_due()), 1);
    await control.redis.restore(control.keys.api_tokens(), 0, backup);
    await begin();
    assert.equal((await repairCopies(control, near, all)).error, undefined);
    assert.equal(await near.redis.zcard(near.keys.triggers_due()), 1);
  });

  test('a copy for a new trigger removes nothing if the control partition loses its data meanwhile', async () => {
    await begin();
    const [near] = others as [Partition];
    await changing().register('shop', 'shop');
    await putTrigger(near, 'hourly');
    const { control } = partitions;
    const run = near.run.bind(near);
    near.run = async (name, args) => {
      const reply = await run(name, args);
      if (name === 'register_client')
        await control.redis.del(control.keys.schema(), control.keys.api_tokens());
      return reply;
    };
    await assert.rejects(addCopy(control, near, 'shop'), StorageLost);
    assert.deepEqual(await known(near), { shop: 'shop' });
    assert.equal(await near.redis.zcard(near.keys.triggers_due()), 1);
  });

  test('a sweep repairs all clients but those of which another program has written a key', async () => {
    await begin();
    const [near] = others as [Partition];
    const all = new AbortController().signal;
    const cutOff = new Clients(partitions.control, []);
    for (const token of ['narrowed--1', 'removed--1', 'spoiled--1']) await changing().register('old', token);
    await cutOff.remove('removed--1');
    await cutOff.register('narrowed', 'narrowed--1', { publish: ['a'] });
    for (const { redis, keys } of [partitions.control, near]) {
      await redis.set(keys.api_token('spoiled--1'), 'not a hash');
      const { error } = await repairCopies(partitions.control, near, all);
      assert.match(String(error), /WRONGTYPE/);
      assert.deepEqual(await known(near), { 'narrowed--1': 'narrowed', 'spoiled--1': 'old' });
      await redis.del(keys.api_token('spoiled--1'));
      await near.redis.hset(near.keys.api_tokens(), 'narrowed--1', 'other', 'removed--1', 'old');
    }
  });
});
