import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { pipelineAsStranger, pipelineReads } from '../../../harness/fences/attacks/requests.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';

const bus = busWithDefaultLimits();
const victim = Victim.forTests(bus);

test('thousands of requests without credentials on one connection keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => pipelineAsStranger(attacker, signal));
});

test('hundreds of readings of the figures on one connection keep nobody waiting', async (t) => {
  // Makes 300 topics with figures, so that answers of `/metrics` are long.
  const busy = await bus.client('busy');
  for (let n = 0; n < 300; n++) await busy.publish(`busy_${n}`, { url: 'https://good.example.com/1' });
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => pipelineReads(attacker, signal));
});
