import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { type Answer, answer, type Receiver } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { bus, victim } from './default_limits.ts';

/** Workers and spare workers of two threads with the default numbers. A spare worker helps when others stand still. */
const WORKERS = 64;
const SPARE = 22;
/** A subscription that asks for the maximum of deliveries in flight. */
const GREEDY = { max: 1, timeout: 0, max_in_flight: WORKERS };

/** Resolves with the number of deliveries in flight to these subscribers. */
async function inFlight(...attackers: Attacker[]): Promise<number> {
  const { redis, keys } = bus.store;
  const tokens = attackers.map(({ client }) => client.token);
  const counts = await redis.hmget(keys.lanes_in_flight(), ...tokens);
  return counts.reduce((sum, count) => sum + Number(count), 0);
}

/**
 * Makes a greedy subscriber to a topic of its own. It accepts a first batch quickly; from then on it gives `answers`.
 */
async function quickAtFirst(t: TestContext, topic: string, answers: Answer) {
  const attacker = await Attacker.start(bus, t);
  const receiver: Receiver = await attacker.subscribe([topic], answer.status(204), GREEDY);
  await attacker.client.publish(topic, [{ url: 'https://evil.example.com/' }]);
  await until(() => receiver.deliveries.length > 0);
  await until(async () => (await inFlight(attacker)) === 0);
  receiver.usual = answers;
  const publish = (count: number) =>
    attacker.client.publish(
      topic,
      Array.from({ length: count }, (_, n) => ({ url: `https://evil.example.com/${n}` })),
    );
  const leave = () => attacker.client.call('DELETE', '/subscriber');
  return { attacker, publish, leave };
}

test('a subscriber that takes a little less than a second holds a quarter of the workers', async (t) => {
  const { attacker, publish, leave } = await quickAtFirst(t, 'laggards', answer.late(900));
  for (let posts = 0; posts < 10; posts++) await publish(100);
  await until(async () => (await inFlight(attacker)) >= 12);
  await besideAttack(victim, async (signal) => {
    while (!signal.aborted) {
      const found = await inFlight(attacker);
      assert.ok(found <= (WORKERS + SPARE) / 4, `${found} deliveries in flight`);
    }
  });
  await leave();
});

test('four subscribers that were quick and hang at once leave workers to others', async (t) => {
  const topics = ['traps1', 'traps2', 'traps3', 'traps4'];
  const hanging = await Promise.all(topics.map((topic) => quickAtFirst(t, topic, answer.hang)));
  await besideAttack(victim, () => Promise.all(hanging.map(({ publish }) => publish(50))));
  const held = await inFlight(...hanging.map(({ attacker }) => attacker));
  assert.ok(held > WORKERS - 16 && held <= WORKERS + SPARE / 2, `${held} deliveries hang`);
  for (const { leave } of hanging) await leave();
});

test('three subscribers that hang do not keep a new one, or a slow one, waiting for their time-outs', async (t) => {
  const topics = ['holds1', 'holds2', 'holds3'];
  const hanging = await Promise.all(topics.map((topic) => quickAtFirst(t, topic, answer.hang)));
  for (const { publish } of hanging) await publish(50);
  const { redis, keys } = bus.store;
  // These deliveries are late by now, and fill the half of the workers that slow and new subscribers share.
  await until(async () => (await redis.scard(keys.share_workers('slow'))) >= (WORKERS + SPARE) / 2);
  const { publisher, topic, receiver } = await bus.scene(t);
  const began = performance.now();
  for (let n = 1; n <= 3; n++) {
    receiver.answers(answer.late(1100));
    await publisher.publish(topic, [{ url: `https://good.example.com/${n}` }]);
    await receiver.delivery(n);
  }
  const tookMs = performance.now() - began;
  assert.ok(tookMs < 10_000, `${tookMs} ms`);
  for (const { leave } of hanging) await leave();
});
