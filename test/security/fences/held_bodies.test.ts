import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { dripBody, holdBodies, holdRoom } from '../../../harness/fences/attacks/requests.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { residentMiB } from '../../../harness/measuring/cpu.ts';
import { sleep } from '../../../src/clock.ts';
import { bus, victim } from './default_limits.ts';

/** Publishes 4 MB again and again as a good client. Every publish must be accepted. */
async function publishMuch(signal: AbortSignal): Promise<void> {
  const good = await bus.client('good');
  const topic = `much_${good.token.slice(-8)}`;
  const events = Array(70).fill({
    type: 'noop',
    url: 'https://good.example.com/1',
    data: 'x'.repeat(60_000),
  });
  while (!signal.aborted) {
    await sleep(300, signal);
    await good.call('POST', `/topics/${topic}`, events);
  }
}

test('a client whose publishes lack a byte holds half of the room at most', async (t) => {
  const attacker = await Attacker.start(bus, t);
  // The good client publishes also while the victim is measured in quiet: its 4 MB delay the victim, not the attack.
  const over = new AbortController();
  const publishing = publishMuch(over.signal);
  publishing.catch(() => {}); // reported below
  await besideAttack(victim, (signal) => holdRoom(attacker, signal)).finally(() => over.abort());
  await publishing;
});

test('several such clients leave room for others, and lose what stalls', async (t) => {
  const attackers = await Promise.all(Array.from({ length: 4 }, () => Attacker.start(bus, t)));
  const signal = AbortSignal.timeout(3000);
  await Promise.all([...attackers.map((each) => holdRoom(each, signal)), publishMuch(signal)]);
});

test('many bodies that drip, of as many clients, hold no more than what has arrived', async (t) => {
  const attackers = await Promise.all(Array.from({ length: 25 }, () => Attacker.start(bus, t)));
  const signal = AbortSignal.timeout(4000);
  const dripping = attackers.map((each) => dripBody(each, signal));
  await sleep(500, signal);
  await Promise.all([...dripping, publishMuch(signal)]);
});

test('bodies to a route that the client may not call are not kept in memory', async (t) => {
  const attacker = await Attacker.start(bus, t, { publish: [], subscribe: [] });
  const { pid } = bus.process('web');
  const beforeMiB = residentMiB(pid);
  let maxMiB = 0;
  await besideAttack(victim, async (signal) => {
    const holding = holdBodies(attacker, signal);
    for (; !signal.aborted; await sleep(100, signal)) maxMiB = Math.max(maxMiB, residentMiB(pid));
    await holding;
  });
  assert.ok(maxMiB - beforeMiB < 200, `${maxMiB - beforeMiB} MiB more`);
});
