import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { bus, victim } from './default_limits.ts';

const MAX_BYTES = 1024 * 1024;
/** Maximum time of a script call. A call that opened 10,000 batches took 50 ms on a quiet machine. */
const MAX_CALL_MS = 25;

const events = (count: number, data?: string) =>
  Array.from({ length: count }, (_, n) => ({ url: `https://e.example/${n}`, ...(data && { data }) }));

test('an array for a subscriber that takes one event at a time does not stop Redis', async (t) => {
  const attacker = await Attacker.start(bus, t);
  // The first answer of this subscriber, 410, pauses it, so that only publishing is measured.
  const gone = await attacker.subscribe(['singles'], answer.status(410), { max: 1, timeout: 0 });
  await attacker.client.publish('singles', events(1));
  await until(() => gone.deliveries.length > 0);
  const { redis } = bus.store;
  await redis.config('SET', 'slowlog-log-slower-than', '1000');
  const longestMs: number[] = [];
  await besideAttack(victim, async () => {
    for (let n = 0; n < 3; n++) {
      await redis.slowlog('RESET');
      await attacker.client.publish('singles', events(10_000));
      const log = (await redis.slowlog('GET', 100)) as [id: number, at: number, micros: number][];
      longestMs.push(Math.max(...log.map(([, , micros]) => micros / 1000)));
    }
  });
  // The shortest of several times counts, because the machine may be busy at some of them.
  assert.ok(Math.min(...longestMs) < MAX_CALL_MS, `${longestMs} ms`);
  await attacker.client.call('DELETE', '/topics/singles');
});

test('a batch of 16 MiB that is tried over and over does not stop Redis', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const { client } = attacker;
  const callback = await attacker.sink({ status: 500 });
  const wanted = { max: 10_000, max_bytes: 16 * MAX_BYTES, timeout: 3_600_000 };
  await client.call('POST', '/subscription', { topics: ['giants'], callback, ...wanted });
  for (let n = 0; n < 3; n++) await client.publish('giants', events(80, 'x'.repeat(60_000)));
  const [batch] = (await client.call('GET', '/deliveries')) as { id: string }[];
  const { redis, keys } = bus.store;
  const attempts = async () => Number(await redis.lindex(keys.batch(batch?.id ?? ''), 2));
  await redis.config('SET', 'slowlog-log-slower-than', '1000');
  const longestMs: number[] = [];
  await besideAttack(victim, async (signal) => {
    for (let n = 0; n < 5 && !signal.aborted; n++) {
      const before = await attempts();
      await redis.slowlog('RESET');
      const isTried = async () => {
        // A resumed subscriber is tried at once.
        for (const path of ['/subscriber/pause', '/subscriber/resume', `/deliveries/${batch?.id}/retry`])
          await attacker.tries('POST', path);
        return (await attempts()) > before;
      };
      await until(isTried, { everyMs: 100, timeoutMs: 15_000 });
      const log = (await redis.slowlog('GET', 100)) as [id: number, at: number, micros: number][];
      longestMs.push(Math.max(0, ...log.map(([, , micros]) => micros / 1000)));
    }
  });
  assert.ok(Math.min(...longestMs) < MAX_CALL_MS, `${longestMs} ms`);
  await client.call('DELETE', '/subscriber');
});

test('no delivery is longer than its subscriber may ask for, however long its batch waits', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const receiver = await attacker.subscribe(['heaps'], answer.status(204), { max: 10_000, timeout: 1000 });
  let sent = 0;
  await besideAttack(victim, async () => {
    for (; sent < 240; sent += 80) await attacker.client.publish('heaps', events(80, 'x'.repeat(60_000)));
  });
  await until(() => receiver.events.length === sent, { timeoutMs: 20_000 });
  for (const { body } of receiver.deliveries)
    assert.ok(Buffer.byteLength(body) <= MAX_BYTES, `${Buffer.byteLength(body)} bytes`);
  await attacker.client.call('DELETE', '/topics/heaps');
});
