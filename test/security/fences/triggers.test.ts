import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { putTrigger } from '../../../harness/scripts/triggers.ts';
import { until } from '../../../harness/until.ts';
import { bus, victim } from './default_limits.ts';

const MAX_TRIGGERS = 1000;

test('as many triggers as a client may have, each as often as it may fire, delay nobody', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const client = attacker.client.token;
  const timing = {
    schedule: { cron: '* * * * * *', timezone: 'Europe/Berlin' },
    start: 0,
    end: null,
    offset: 0,
  };
  const fired = () => bus.metric('routemaster_triggers_fired_total');
  const names = Array.from({ length: MAX_TRIGGERS }, (_, n) => `tick_${n}`);
  // Stored by the script, as the limit of the call rate would refuse half of them.
  for (const [n, name] of names.entries())
    await putTrigger(bus.store, name, {
      client,
      topic: attacker.topic,
      timing,
      nextAt: Date.now() + 1000 + n,
    });
  await besideAttack(victim, () => until(async () => (await fired()) > MAX_TRIGGERS));
  for (const name of names) await bus.store.run('remove_trigger', { client, name, isNoted: false });
});

test('expressions that take long delay nobody', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const event = { type: 'noop', url: 'https://evil.example.com/' };
  const crons = [
    '* * 2 * 3 SUNL',
    '0 0 1W * +SUN',
    `0 0 ${Array.from({ length: 31 }, (_, d) => `${d + 1}W`)} * +SUN`,
  ];
  await besideAttack(victim, async (signal) => {
    for (let n = 0; !signal.aborted; n++) {
      const schedule = { cron: crons[n % crons.length], timezone: 'Europe/Berlin' };
      await attacker.tries('PUT', '/triggers/slow', { topic: attacker.topic, event, schedule });
    }
  });
});

test('rare times and long definitions that are shown over and over delay nobody, nor fill the memory of web', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const { topic, client } = attacker;
  const event = { type: 'noop', url: 'https://evil.example.com/' };
  const schedule = { cron: '30 2 * 3 +SUN#5', timezone: 'Europe/Berlin' };
  await client.call('PUT', '/triggers/rare', { topic, event, schedule, paused: true });
  // Parsed, this JSON takes a megabyte.
  const data = JSON.stringify(Array.from({ length: 21_000 }, () => ({})));
  const names = Array.from({ length: 200 }, (_, n) => `long_${n}`);
  const room = { limits: { maxClientBytes: 1e9 }, paused: true };
  for (const name of names) await putTrigger(bus.store, name, { client: client.token, topic, data, ...room });
  const { pid } = bus.process('web');
  const peakMb = () =>
    Number(/^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  const beforeMb = peakMb();
  const paths = ['/triggers/rare?preview=100', '/triggers?limit=200'];
  await besideAttack(victim, (signal) =>
    Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        while (!signal.aborted) await attacker.tries('GET', paths[n % paths.length] ?? '');
      }),
    ),
  );
  assert.ok(peakMb() - beforeMb < 250, `${beforeMb} MB, then ${peakMb()} MB`);
  for (const name of names)
    await bus.store.run('remove_trigger', { client: client.token, name, isNoted: false });
});
