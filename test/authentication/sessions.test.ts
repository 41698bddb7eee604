import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { TestStore } from '../../harness/redis/store.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { Credentials } from '../../src/authentication/credentials.ts';
import { Sessions } from '../../src/authentication/sessions.ts';

const redis = new TestStore();

beforeEach(() => redis.flush());

describe('a session, which this process has just used', () => {
  /** Begins a session of a client. Returns the client, its session, and the clients as another process has them. */
  async function used() {
    const elsewhere = new Clients(redis.store, []);
    const { token, name, secret } = await elsewhere.create('shop');
    const directory = new ClientDirectory(new Clients(redis.store, []));
    const sessions = new Sessions(redis.store, new Credentials(['the-root-key-of-this-test'], directory));
    const cookie = await sessions.begin({ role: 'client', token, name }, token, secret, false);
    const session = () => sessions.of({ cookie });
    assert.equal((await session())?.caller.role, 'client');
    return { token, session, elsewhere };
  }

  test('ends at once when another process removes its client', async () => {
    const { token, session, elsewhere } = await used();
    await elsewhere.remove(token);
    assert.equal(await session(), undefined);
  });

  test('ends at once when another process replaces the secret of its client', async () => {
    const { token, session, elsewhere } = await used();
    await elsewhere.rotate(token, 0);
    assert.equal(await session(), undefined);
  });
});
