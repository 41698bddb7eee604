import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { seedOf } from '../../harness/scripts/names.ts';
import { BusError, StorageFull, StorageUnavailable } from '../../src/errors.ts';
import { reasonOf } from '../../src/log.ts';
import { readScripts, standalone } from '../../src/store/script_source.ts';

const redis = new TestStore();
const write = () => redis.store.command((commands) => commands.set('a', 'b'));

const publish = () =>
  redis.store.run('publish', {
    ...{ uidSeed: seedOf('a'), ...PUBLISH_LIMITS },
    publications: [{ topic: 'widgets', client: 'shop', events: ['e'] }],
  });

beforeEach(() => redis.flush());
afterEach(() => redis.store.redis.config('SET', 'maxmemory', '0'));

describe('an error of Redis', () => {
  test('about missing memory is StorageFull, for commands and scripts', async () => {
    await redis.store.redis.config('SET', 'maxmemory', '1');
    await assert.rejects(write(), StorageFull);
    await assert.rejects(publish(), StorageFull);
  });

  test('that is temporary is StorageUnavailable, with its first word', async () => {
    await redis.store.redis.config('SET', 'min-replicas-to-write', '1');
    const why = 'Redis refuses commands (NOREPLICAS)';
    await assert.rejects(write(), (error) => {
      assert.ok(error instanceof StorageUnavailable);
      assert.equal(error.why, why);
      // The log has the words of Redis too, which say what to do.
      assert.equal(reasonOf(error), `${why}: Not enough good replicas to write.`);
      return true;
    });
    await redis.store.redis.config('SET', 'min-replicas-to-write', '0');
  });

  test('of any other kind is thrown unchanged', async () => {
    await assert.rejects(
      redis.store.command((commands) => commands.call('get')),
      (error: Error) => !(error instanceof BusError) && /wrong number of arguments/.test(error.message),
    );
  });
});

test('a mistake of the bus itself is thrown unchanged', async () => {
  for (const mistake of [new TypeError('undefined is no function'), new SyntaxError('no JSON')])
    await assert.rejects(
      redis.store.command(() => Promise.reject(mistake)),
      (error) => error === mistake,
    );
});

test('scripts do not replace commands of the same name', async () => {
  assert.equal(await redis.store.redis.publish('a channel', 'a message'), 0);
});

test('Redis accepts every script', async () => {
  for (const script of readScripts())
    assert.match(String(await redis.store.redis.script('LOAD', standalone(script))), /^[0-9a-f]{40}$/);
});
