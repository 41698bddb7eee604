import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { until } from '../../harness/until.ts';
import { basic, FIXED_TOKEN, GuardedServer, ROOT_KEY } from './guarded_server.ts';

const server = new GuardedServer();

beforeEach(async () => {
  await server.redis.flush();
  server.log.length = 0;
});

describe('Basic', () => {
  test('lets a client in with its token and secret', async () => {
    const { token, secret } = await server.clients.create('billing');
    const { status, body } = await server.get('/client', basic(token, secret));
    assert.equal(status, 200);
    assert.deepEqual(body, { role: 'client', token, name: 'billing' });
    assert.deepEqual(server.log, []);
  });

  test('refuses a client that has a secret with any other', async () => {
    const { token, secret } = await server.clients.create('billing');
    for (const wrong of ['', 'x', `${secret}x`, secret.slice(0, -1), `${secret}:`, token]) {
      assert.equal((await server.get('/client', basic(token, wrong))).status, 401);
    }
    const { secret: ofAnother } = await server.clients.create('billing');
    assert.equal((await server.get('/client', basic(token, ofAnother))).status, 401);
  });

  test('lets a token-only client in with any password', async () => {
    await server.clients.register('other', 'other--1');
    for (const password of ['', 'x', 'a:b', '\u00e9']) {
      const { status, body } = await server.get('/client', basic('other--1', password));
      assert.equal(status, 200);
      assert.deepEqual(body, { role: 'client', token: 'other--1', name: 'other' });
    }
  });

  test('lets a client of ROUTEMASTER_CLIENTS in with any password', async () => {
    assert.equal((await server.get('/client', basic(FIXED_TOKEN, ''))).status, 200);
  });

  test('lets root in with the root key as the user, and any password', async () => {
    for (const password of ['', 'x']) {
      const { status, body } = await server.get('/root', basic(ROOT_KEY, password));
      assert.equal(status, 200);
      assert.deepEqual(body, { role: 'root' });
    }
  });

  test('does not take the root key as a password, nor a part of it as the user', async () => {
    assert.equal((await server.get('/root', basic('root', ROOT_KEY))).status, 401);
    assert.equal((await server.get('/root', basic(ROOT_KEY.slice(0, -1), ''))).status, 401);
    assert.equal((await server.get('/root', basic('', ''))).status, 401);
  });

  test('splits at the first colon, and reads UTF-8', async () => {
    await server.redis.store.redis.hset('api_tokens:by_token', 'caf\u00e9', 'cafe');
    assert.equal((await server.get('/client', basic('caf\u00e9', 'a:b:c'))).status, 200);
  });

  test('is a scheme in any case, with any space after it', async () => {
    const encoded = basic(FIXED_TOKEN, '').slice('Basic '.length);
    for (const scheme of ['basic ', 'BASIC ', 'Basic   ']) {
      assert.equal((await server.get('/client', scheme + encoded)).status, 200);
    }
    assert.equal((await server.get('/client', `XBasic ${encoded}`)).status, 401);
  });

  test('without a user and a password is refused, with the expected format', async () => {
    for (const header of [
      'Basic',
      'Basic ',
      'Basic !!!',
      `Basic ${Buffer.from(FIXED_TOKEN).toString('base64')}`,
    ]) {
      const { status, body } = await server.get('/client', header);
      assert.equal(status, 401);
      assert.match(String(body.detail), /user:password in Base64/);
    }
  });

  test('does not send the root key to Redis, and looks a client up once a second', async () => {
    await server.clients.register('watched', 'watched');
    const commands: string[] = [];
    const monitor = await server.redis.store.redis.monitor();
    monitor.on('monitor', (_time: string, command: string[]) => commands.push(command.join(' ')));
    await server.get('/root', basic(ROOT_KEY, ''));
    await server.get('/client', basic('watched', ''));
    await server.get('/client', basic('watched', ''));
    await server.redis.store.redis.echo('done');
    await until(() => commands.at(-1) === 'echo done');
    monitor.disconnect();
    assert.deepEqual(commands, [
      'hmget api_token:watched ha1_sha256 ha1_md5 publish subscribe',
      'hmget former_secret:watched ha1_sha256 ha1_md5',
      'hget api_tokens:by_token watched',
      'echo done',
    ]);
  });
});
