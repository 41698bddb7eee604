import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';
import { until } from '../../../harness/until.ts';

const MAX_JOINS = 100;
const MAX_OF_TOPIC = 16;
const MAX_BYTES = 2_000_000;
const bus = busWithDefaultLimits({ env: { ROUTEMASTER_MAX_JOIN_BYTES: String(MAX_BYTES) } });
const victim = Victim.forTests(bus);

const url = (n: number) => `https://evil.example.com/${n}`;
let sent = 0;
const events = (count: number, data: unknown) =>
  Array.from({ length: count }, () => ({ type: 'noop', url: url(++sent), data }));

/**
 * Makes as many joins as a client may have. The first count its topic, as many as may count one topic; the next count
 * the events that these publish, and so on. So each event of the topic makes all of them count.
 */
async function joinAll(attacker: Attacker, count: number): Promise<void> {
  for (let n = 0; n < MAX_JOINS; n++) {
    const before = `${attacker.topic}_${Math.floor(n / MAX_OF_TOPIC) - 1}`;
    const topic = n < MAX_OF_TOPIC ? attacker.topic : before;
    const rules = {
      sources: [{ topic, count }],
      by: 'url',
      then: { topic: `${attacker.topic}_${n}` },
    };
    // Repeated, as the limit of the call rate refuses some.
    await until(() =>
      attacker.client.call('PUT', `/joins/j${n}`, rules).then(
        () => true,
        (error) => {
          assert.match(String(error), /429/);
        },
      ),
    );
  }
}

test('a client whose joins all count what it publishes delays nobody', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await joinAll(attacker, 1);
  await besideAttack(victim, async (signal) => {
    while (!signal.aborted) await attacker.tries('POST', `/topics/${attacker.topic}`, events(20, {}));
  });
  assert.deepEqual([...attacker.statuses.keys()], [200]);
  await bus.root.call('DELETE', `/api_tokens/${attacker.client.token}`);
});

test('open keys take no more of Redis than one client may have', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await joinAll(attacker, 2);
  const { redis, keys } = bus.store;
  const bytes = async () => {
    let sum = 0;
    for (const token of await redis.smembers(keys.joins()))
      for (const key of [keys.open_keys(token), keys.open_keys_since(token)])
        sum += Number((await redis.memory('USAGE', key)) ?? 0);
    return sum;
  };
  await besideAttack(victim, async (signal) => {
    while (!signal.aborted)
      await attacker.tries('POST', `/topics/${attacker.topic}`, events(50, 'x'.repeat(1000)));
  });
  const queued = async () =>
    Object.keys(await redis.hgetall(keys.gauge_events())).filter((token) => token.startsWith('join:')).length;
  await until(async () => (await queued()) === 0, { timeoutMs: 60_000 });
  const taken = await bytes();
  assert.ok(taken > MAX_BYTES / 4 && taken < MAX_BYTES * 1.5, `${taken} bytes`);
});
