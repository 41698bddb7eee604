import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { pipelineAsStranger } from '../../../harness/fences/attacks/requests.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';

const bus = busWithDefaultLimits();
const victim = Victim.forTests(bus);

test('thousands of requests without credentials on one connection keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => pipelineAsStranger(attacker, signal));
});
