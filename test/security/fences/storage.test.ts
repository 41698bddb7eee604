import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { infoNumber } from '../../../src/store/memory.ts';

const MB = 1024 * 1024;
/** Memory limit of Redis. The high mark is some 10 MB below. */
const MAX_MEM = 40 * MB;

const bus = busWithDefaultLimits({ env: { ROUTEMASTER_REDIS_MAX_MEM: String(MAX_MEM) } });
const victim = Victim.forTests(bus);

const events = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ url: `https://e.example/${n}`, data: 'x'.repeat(60_000) }));

/** Makes a subscriber that is away, with an old event in its queue, which would be the first to be dropped. */
async function bystander(owner: Parameters<typeof Attacker.start>[1], topic: string) {
  const attacker = await Attacker.start(bus, owner);
  const wanted = { timeout: 3_600_000, max: 10_000 };
  const receiver = await attacker.subscribe([topic], answer.status(204), wanted);
  await attacker.client.publish(topic, events(5));
  return { receiver, report: () => attacker.client.report() };
}

test('buffers of clients of Redis are not storage: nobody is refused or loses anything for them', async (t) => {
  const { report } = await bystander(t, 'quiet');
  const { redis } = bus.store;
  await redis.setrange('filler', 3 * MB, 'x');
  const readers = Array.from({ length: 10 }, () => connect(bus.redis.socketPath ?? '').pause());
  await besideAttack(victim, async () => {
    // Each reader asks for 9 MB and reads nothing, like a process that hangs.
    for (const reader of readers) reader.write('*2\r\n$3\r\nGET\r\n$6\r\nfiller\r\n'.repeat(3));
    const usedBytes = async () => infoNumber(await redis.info('memory'), 'used_memory');
    await until(async () => (await usedBytes()) > 2 * MAX_MEM);
  });
  for (const reader of readers) reader.destroy();
  await redis.del('filler');
  const { events: queue, dropped } = await report();
  assert.deepEqual([queue.queued, dropped], [5, null]);
});

test('who fills Redis loses what it holds, and nobody else does', async (t) => {
  const { report } = await bystander(t, 'calm');
  const attacker = await Attacker.start(bus, t);
  await attacker.subscribe(['flood'], answer.status(503), { timeout: 0, max: 10 });
  await until(
    async () => {
      await attacker.tries(
        'POST',
        '/topics/flood',
        events(40).map((each) => ({ type: 'create', ...each })),
      );
      return (await attacker.client.report()).dropped !== null;
    },
    { timeoutMs: 30_000 },
  );
  const { events: queue, dropped } = await report();
  assert.deepEqual([queue.queued, dropped], [5, null]);
  await attacker.client.call('DELETE', '/subscriber');
});
