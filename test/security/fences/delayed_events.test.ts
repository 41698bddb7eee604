import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';
import { BusAnswerError } from '../../../harness/http/bus_client.ts';
import { until } from '../../../harness/until.ts';
import { readMemory } from '../../../src/store/memory.ts';

const REDIS_BYTES = 64 * 1024 * 1024;
const MAX_BYTES = 0.05 * REDIS_BYTES;
const bus = busWithDefaultLimits({ redis: { maxmemory: String(REDIS_BYTES) } });
const victim = Victim.forTests(bus);

const memoryUsed = async () => (await readMemory(bus.store, { redisMaxBytes: 0, redisMinFreeBytes: 0 })).used;

test('a client that delays as many events as it may takes a small part of Redis, and delays nobody when they are due', async (t) => {
  const { client } = await Attacker.start(bus, t);
  const many = (delay: number) =>
    Array.from({ length: 500 }, (_, n) => ({
      url: `https://evil.example.com/${n}`,
      delay: delay + (n % 7),
    }));
  let refused = 0;
  /** Publishes delayed events. Resolves with true if they were accepted. */
  const publish = (topic: string, delay: number) =>
    client.publish(topic, many(delay)).then(
      () => true,
      (error) => {
        assert.ok(error instanceof BusAnswerError && error.status === 409, String(error));
        refused++;
        return false;
      },
    );
  await besideAttack(victim, async (signal) => {
    for (let n = 0; !signal.aborted; n++) await publish(n % 2 ? 'evil_a' : 'evil_b', 300);
  });

  const { redis, keys } = bus.store;
  const nothingWaits = async () => (await redis.zcard(keys.delayed_topics())) === 0;
  await until(nothingWaits, { timeoutMs: 60_000 });
  const before = await memoryUsed();
  while (await publish('evil_a', 3_600_000));
  const held = Number(await redis.hget(keys.delayed_held(client.token), ':bytes'));
  assert.ok(refused > 0 && held <= MAX_BYTES && held > 0.8 * MAX_BYTES, `${held} of ${MAX_BYTES} bytes`);
  const taken = (await memoryUsed()) - before;
  assert.ok(taken < 1.2 * MAX_BYTES, `${taken} bytes are taken`);
  await client.call('DELETE', '/topics/evil_a');
});
