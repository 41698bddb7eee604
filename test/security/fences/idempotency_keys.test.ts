import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';
import { basic, problemIn, send } from '../../../harness/http/api.ts';

const REDIS_BYTES = 16 * 1024 * 1024;
/** Number of keys that take 5 % of that Redis, at 180 bytes each. */
const MAX_KEYS = Math.floor((0.05 * REDIS_BYTES) / 180);
const bus = busWithDefaultLimits({ redis: { maxmemory: String(REDIS_BYTES) } });
const victim = Victim.forTests(bus);

test('a client with many idempotency keys takes a small part of a small Redis', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const { token, secret } = attacker.client;
  let keys = 0;
  const publish = (key = `key-${++keys}`) =>
    send(
      attacker.port,
      'POST',
      '/topics/keys',
      { authorization: basic(token, secret), 'idempotency-key': key },
      '{"type":"noop","url":"https://evil.example.com/1"}',
    );
  const floods = async (signal: AbortSignal) => {
    while (!signal.aborted) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => publish()));
      if (answers.some(({ status }) => status === 429)) return;
    }
  };
  await besideAttack(victim, floods);

  let refused = await publish();
  while (refused.status !== 429 && keys <= MAX_KEYS) refused = await publish();
  assert.equal(problemIn(refused).code, 'too_many_keys');
  assert.equal(refused.headers['retry-after'], '1');
  const again = await publish('key-1');
  assert.deepEqual([again.status, again.headers['idempotent-replayed']], [204, 'true']);
  await attacker.client.publish('keys', { url: 'https://evil.example.com/2' });
  await victim.client.publish('victims', { url: 'https://victim.example.com/1' }, 'a-key');

  const stored = await bus.store.redis.keys(bus.store.keys.idempotency('?'.repeat(22)));
  assert.ok(
    stored.length > MAX_KEYS / 2 - 1 && stored.length <= MAX_KEYS,
    `${stored.length} of ${MAX_KEYS} keys`,
  );
});
