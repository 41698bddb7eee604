import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { bus, victim } from './default_limits.ts';

test('a subscriber that never answers holds no more than its lane', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const receiver = await attacker.subscribe(['traps'], answer.hang, { max: 1, timeout: 0 });
  const events = Array.from({ length: 200 }, (_, n) => ({ url: `https://evil.example.com/${n}` }));
  await attacker.client.publish('traps', events);
  await until(() => receiver.deliveries.length > 0);
  await besideAttack(victim, async () => {});
  assert.ok(receiver.deliveries.length <= 16, `${receiver.deliveries.length} deliveries hang`);
  await attacker.client.call('DELETE', '/topics/traps');
});
