import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { sendNonsense, sendTinyChunks } from '../../../harness/fences/attacks/requests.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { bus, victim } from './default_limits.ts';

test('bodies that are refused, but took long to parse, keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => sendNonsense(attacker, signal));
});

test('bodies in tiny chunks keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => sendTinyChunks(attacker, signal));
});
