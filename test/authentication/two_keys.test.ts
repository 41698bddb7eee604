import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { Credentials } from '../../src/authentication/credentials.ts';
import { ha1 } from '../../src/authentication/digests.ts';
import { Sessions } from '../../src/authentication/sessions.ts';
import { readConfig } from '../../src/config.ts';

const redis = new TestStore();
const KEYS = {
  root: ['0f'.repeat(24), 'Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5'],
  viewer: ['1e'.repeat(24), '8e03978e-40d5-43e8-bc93-6894a57f9324'],
} as const;
const ROLES = ['root', 'viewer'] as const;

beforeEach(() => redis.flush());

/** Returns the credentials of a bus with these keys, as the environment has them. */
function credentialsWith(rootKeys: string, viewerKeys: string): Credentials {
  const config = readConfig({
    ...{ NODE_ENV: 'production', ROUTEMASTER_ROOT_KEY: rootKeys, ROUTEMASTER_VIEWER_KEY: viewerKeys },
  });
  const directory = new ClientDirectory(new Clients(redis.store, []));
  return new Credentials(config.rootKeys, directory, config.viewerKeys);
}

const both = () => credentialsWith(KEYS.root.join(' '), KEYS.viewer.join(' '));

describe('while the keys of root and viewers are replaced', () => {
  test('the new and the old one are taken, by Basic, Digest and login', async () => {
    const credentials = both();
    for (const role of ROLES)
      for (const key of KEYS[role]) {
        assert.deepEqual(await credentials.checkPassword(key, 'x'), { role });
        assert.deepEqual(await credentials.checkLogin(role, key), { role });
        assert.deepEqual(
          await credentials.checkDigest(role, ({ sha256 }) => sha256 === ha1('SHA-256', role, key)),
          { role },
        );
        assert.ok(credentials.isReserved(key));
      }
    assert.ok('reason' in (await credentials.checkLogin('root', KEYS.viewer[0])));
    assert.ok('reason' in (await credentials.checkPassword(KEYS.root.join(' '), 'x')));
    assert.ok('reason' in (await credentials.checkDigest('root', () => false)));
  });

  test('a session ends when the key with which it began goes', async () => {
    for (const role of ROLES)
      for (const [index, key] of KEYS[role].entries())
        for (const [user, password] of [
          [role, key],
          [key, 'x'],
        ] as const) {
          const cookie = await new Sessions(redis.store, both()).begin({ role }, user, password, false);
          const isOpen = async (credentials: Credentials) =>
            (await new Sessions(redis.store, credentials).of({ cookie })) !== undefined;
          assert.ok(await isOpen(both()));
          assert.equal(await isOpen(credentialsWith(KEYS.root[0], KEYS.viewer[0])), index === 0);
          assert.equal(await isOpen(credentialsWith(KEYS.root[1], KEYS.viewer[1])), index === 1);
        }
  });

  test('a web process takes both', async (t) => {
    const env = { ROUTEMASTER_REDIS_URL: redis.redis.url, ROUTEMASTER_ROOT_KEY: KEYS.root.join(' ') };
    const port = await WebProcess.during(t, env).port();
    for (const key of KEYS.root) {
      const headers = { authorization: `Basic ${btoa(`${key}:x`)}` };
      assert.equal((await fetch(`http://127.0.0.1:${port}/jobs`, { headers })).status, 200);
    }
  });
});

test('neither of two keys may be weak, or open something else, and there are no more than two', () => {
  const [key, other] = KEYS.root;
  const production = (env: Record<string, string>) => () =>
    readConfig({ NODE_ENV: 'production', ROUTEMASTER_ROOT_KEY: key, ...env });
  for (const ROUTEMASTER_ROOT_KEY of [`short ${key}`, `${key} short`])
    assert.throws(production({ ROUTEMASTER_ROOT_KEY }), /ROUTEMASTER_ROOT_KEY has fewer than 16 characters/);
  const weak = { ROUTEMASTER_VIEWER_KEY: `${other} change-me-change-me-change-me` };
  assert.throws(production(weak), /ROUTEMASTER_VIEWER_KEY looks like a placeholder/);
  const equal = { ROUTEMASTER_VIEWER_KEY: `${other} ${key}` };
  assert.throws(production(equal), /ROUTEMASTER_VIEWER_KEY equals ROUTEMASTER_ROOT_KEY/);
  for (const wrong of [`${key} ${other} ${key}`, `${key}  ${other}`, `${key} `, `${key}\t${other}`])
    assert.throws(production({ ROUTEMASTER_ROOT_KEY: wrong }), /ROUTEMASTER_ROOT_KEY must /, wrong);
});
