import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, mock, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { commands } from '../../../harness/redis/script_calls.ts';
import { openStore, TestStore } from '../../../harness/redis/store.ts';
import { FailedLogins, MAX_FAILURES } from '../../../src/authentication/failed_logins.ts';
import { clock } from '../../../src/clock.ts';
import { answerParameters, challengeFor, header } from '../../authentication/digest_client.ts';
import {
  type Answer,
  basic,
  FIXED_TOKEN,
  GuardedServer,
  ROOT_KEY,
} from '../../authentication/guarded_server.ts';

const failures: string[] = [];
// Two web processes behind one router, which forwards the caller's address. The clock stands still, so no minute ends.
let wallMs = Date.UTC(2026, 0, 1);
before(() => mock.method(clock, 'wallMs', () => wallMs));
after(() => mock.reset());
const options = { proxies: 1, failed: (reason: string) => void failures.push(reason) };
const one = new GuardedServer(options);
const other = new GuardedServer(options, one.redis);
let address = 0;
let caller: string;

beforeEach(() => {
  caller = `198.51.100.${++address}`;
  failures.length = 0;
  one.log.length = 0;
});

const call = (
  server: GuardedServer,
  authorization?: string,
  from = caller,
  target = '/client',
): Promise<Answer> =>
  server.call(target, [
    ['X-Forwarded-For', from],
    ...(authorization === undefined ? [] : [['Authorization', authorization] as [string, string]]),
  ]);

/** Sends this many requests with wrong credentials, 20 at a time. */
async function fail(count: number, server = one, from = caller): Promise<void> {
  for (let i = 0; i < count; i += 20) {
    const some = Array.from({ length: Math.min(20, count - i) }, () =>
      call(server, basic('nobody', 'x'), from),
    );
    await Promise.all(some);
  }
}

describe('failures of an address', () => {
  test('beyond a hundred a minute are answered 429 with Retry-After and no challenge', async () => {
    await fail(MAX_FAILURES - 1);
    const last = await call(one, basic('nobody', 'x'));
    assert.deepEqual([last.status, last.challenges.length], [401, 3]);
    const { token } = await one.clients.create('billing');
    for (const wrong of [
      basic('nobody', 'x'),
      basic(token, 'wrong'),
      basic(`${ROOT_KEY}x`, ''),
      'Basic x',
      'Bearer x',
      'Digest x',
    ]) {
      const { status, body, challenges, retryAfter } = await call(one, wrong);
      assert.deepEqual([status, body.code, challenges], [429, 'too_many_failures', []], wrong);
      assert.ok(Number(retryAfter) >= 1 && Number(retryAfter) <= 60, retryAfter);
    }
  });

  test('never keep out a caller with the right credentials, by either scheme', async () => {
    await fail(MAX_FAILURES + 1);
    assert.equal((await call(one, basic('nobody', 'x'))).status, 429);
    const { token, secret } = await one.clients.create('new_here');
    for (const server of [one, other]) {
      assert.equal((await call(server, basic(token, secret))).status, 200);
      assert.equal((await call(server, basic(FIXED_TOKEN, ''))).status, 200);
      assert.equal((await call(server, basic(ROOT_KEY, ''), caller, '/root')).status, 200);
      const { status, challenges } = await call(server);
      assert.equal(status, 401, 'a request without credentials gets a challenge');
      const digest = challenges.filter((each) => each.startsWith('Digest'));
      const answer = answerParameters(challengeFor('SHA-256', digest), {
        user: token,
        secret,
        uri: '/client',
      });
      assert.equal((await call(server, header(answer))).status, 200);
      // A repeated Digest answer is stale, not wrong: the client may continue with another nonce.
      const repeated = await call(server, header(answer));
      assert.deepEqual([repeated.status, /stale=true/.test(repeated.challenges.join())], [401, true]);
      // A client without a secret that chose Digest is sent to Basic, where it is let in.
      const tokenOnly = { user: FIXED_TOKEN, secret: 'x', uri: '/client' };
      const refused = await call(
        server,
        header(answerParameters(challengeFor('SHA-256', digest), tokenOnly)),
      );
      assert.deepEqual([refused.status, refused.challenges.length], [401, 1]);
    }
    const slowed = failures.filter((reason) => reason === 'slowed').length;
    assert.equal(slowed, 2, 'those that were answered 429, and no others');
  });

  test('are counted over all processes, separately for each address', async () => {
    await fail(MAX_FAILURES / 2, one);
    await fail(MAX_FAILURES / 2, other);
    const [here, there] = await Promise.all([
      call(one, basic('nobody', 'x')),
      call(other, basic('nobody', 'x')),
    ]);
    assert.deepEqual([here.status, there.status], [429, 429]);
    assert.equal((await call(one, basic('nobody', 'x'), '203.0.113.200')).status, 401);
  });

  test('are counted together for all 2^64 IPv6 addresses of one caller', async () => {
    for (let i = 0; i < MAX_FAILURES; i += 20)
      await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          call(one, basic('nobody', 'x'), `2001:db8:${address}:1::${(i + index).toString(16)}`),
        ),
      );
    const [near, far] = [`2001:0DB8:${address}:1:ffff:1:2:3`, `2001:db8:${address}:2::1`];
    assert.equal((await call(one, basic('nobody', 'x'), near)).status, 429);
    assert.equal((await call(one, basic('nobody', 'x'), far)).status, 401);
  });

  test('are counted by reason; a challenge or an answer to an old nonce does not count', async () => {
    const { token, secret } = await one.clients.create('billing');
    await call(one);
    await call(one, basic('nobody', 'x'));
    await call(one, basic(token, 'x'));
    await call(one, 'Basic x');
    await call(one, 'Digest x');
    await call(one, 'Bearer x');
    const digest = (await call(one)).challenges.filter((each) => each.startsWith('Digest'));
    const sha = challengeFor('SHA-256', digest);
    const right = answerParameters(sha, { user: token, secret, uri: '/client' });
    await call(one, header({ ...right, nonce: 'mine' }));
    await call(one, header(right));
    await call(one, header(right));
    await call(one, header(answerParameters(sha, { user: FIXED_TOKEN, secret, uri: '/client' })));
    assert.deepEqual(failures, [
      ...['unknown_user', 'wrong_secret', 'malformed', 'malformed', 'unknown_scheme'],
      ...['wrong_terms', 'repeated_count', 'no_secret'],
    ]);
  });

  test('are logged with reason and address, up to a hundred a minute', async () => {
    await fail(MAX_FAILURES + 50);
    const { length } = one.log.filter(({ msg }) => msg === 'authentication failed');
    assert.equal(length, MAX_FAILURES);
    assert.ok(
      one.log.every(({ remoteAddress, reason }) => remoteAddress === caller && reason === 'unknown_user'),
    );
    // For all addresses together, one more line a minute reports that there are further failures.
    assert.ok(one.log.length <= MAX_FAILURES + 1);
    assert.equal(failures.filter((reason) => reason === 'slowed').length, 50);
  });
});

const { log, lines } = capturedLog();

test('while Redis is away failures keep no caller out, and no caller waits', async () => {
  const away = await openStore(one.redis.redis.url);
  away.redis.disconnect();
  const counts = new FailedLogins(away, log);
  for (let i = 1; i <= MAX_FAILURES + 2; i++)
    assert.equal(await counts.count('192.0.2.1'), i, 'each process counts by itself');
  assert.deepEqual(lines, [], 'another line reports that Redis is away');
});

describe('the counters of failures', () => {
  const redis = new TestStore();
  beforeEach(() => redis.flush());

  test('take at most 300 kB of Redis, however many addresses there are', async () => {
    const counts = new FailedLogins(redis.store, log);
    for (let i = 0; i < 20; i++)
      await Promise.all(
        Array.from({ length: 1000 }, (_, index) => counts.count(`10.${i}.${index >> 8}.${index & 255}`)),
      );
    const { redis: connection } = redis.store;
    const [key = '', ...more] = await connection.keys('*');
    assert.deepEqual(more, []);
    assert.ok(Number(await connection.memory('USAGE', key)) <= 300_000);
    const ttlMs = await connection.pttl(key);
    assert.ok(ttlMs > 60_000 && ttlMs <= 120_000, `${ttlMs} ms`);
    wallMs += 60_000;
    assert.equal(await counts.count('10.0.0.0'), 1, 'they start anew a minute later');
  });

  test('of an address that is already refused cost no call of Redis', async () => {
    const counts = new FailedLogins(redis.store, log);
    const before = await commands(redis.store);
    for (let i = 0; i < MAX_FAILURES + 100; i++) await counts.count('192.0.2.1');
    assert.equal((await commands(redis.store)) - before, MAX_FAILURES * 2, 'BITFIELD and PEXPIRE for each');
  });
});
