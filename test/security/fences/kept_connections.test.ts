import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { KEEP_FOR_MINUTES, KeepingHost } from '../../../harness/http/keeping_host.ts';
import { until } from '../../../harness/until.ts';
import { bus, victim } from './default_limits.ts';

/** Minimum numbers that an attack reaches. On a slow machine it goes on for longer than the victim is measured. */
const MIN_HOSTS = 11;
const MIN_DELIVERIES = 100;
const EVENT = { url: 'https://evil.example.com/1' };

test('a subscriber that moves from host to host leaves no connections behind', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const hosts: KeepingHost[] = [];
  const open = () => hosts.reduce((sum, each) => sum + each.open.size, 0);
  await besideAttack(victim, async (signal) => {
    while (!signal.aborted || hosts.length < MIN_HOSTS) {
      const host = await KeepingHost.start(t);
      hosts.push(host);
      await attacker.client.call('POST', '/subscription', {
        topics: ['moves'],
        callback: host.callback,
        uuid: 'evil',
        timeout: 0,
      });
      await attacker.client.publish('moves', EVENT);
      await until(() => host.requests > 0);
    }
  });
  // One connection to the last host, and one that the other thread keeps for some seconds to its own last host.
  await until(() => open() <= 4, { timeoutMs: 5000, what: 'connections to former hosts are closed' });
});

test('a subscriber whose answers never end holds a limited number of connections', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const host = await KeepingHost.start(
    t,
    (_, response) => void response.writeHead(200, KEEP_FOR_MINUTES).write('and then'),
  );
  await attacker.client.call('POST', '/subscription', {
    topics: ['drips'],
    callback: host.callback,
    uuid: 'evil',
    timeout: 0,
    max: 1,
  });
  await besideAttack(victim, async (signal) => {
    for (let sent = 20; !signal.aborted || sent <= MIN_DELIVERIES; sent += 20) {
      await attacker.client.publish('drips', Array(20).fill(EVENT));
      await until(() => host.requests >= sent);
    }
  });
  // 16 unfinished answers in each of two threads, 16 deliveries under way, and connections that are being closed.
  assert.ok(host.maxOpen <= 64, `${host.maxOpen} connections`);
});
