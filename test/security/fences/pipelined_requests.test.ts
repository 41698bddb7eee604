import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import {
  floodPublishes,
  pipelineAsStranger,
  pipelineReads,
} from '../../../harness/fences/attacks/requests.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { putDeadLetters } from '../../../harness/scripts/dead_letters.ts';
import { bus, victim } from './default_limits.ts';

const AT_ONCE = 16;

/** Makes this many calls at a time, again and again. Each gets the number of its line and of its turn. */
async function atOnce(signal: AbortSignal, call: (line: number, turn: number) => Promise<void>) {
  const line = async (_: unknown, line: number) => {
    for (let turn = 0; !signal.aborted; turn++) await call(line, turn);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, line));
}

test('thousands of requests without credentials on one connection keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => pipelineAsStranger(attacker, signal));
});

test('hundreds of publishes at a time, on many connections, keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => floodPublishes(attacker, signal));
});

test('hundreds of readings of the figures on one connection keep nobody waiting', async (t) => {
  // Makes 300 topics with figures, so that answers of `/metrics` are long.
  const busy = await bus.client('busy');
  for (let n = 0; n < 300; n++) await busy.publish(`busy_${n}`, { url: 'https://good.example.com/1' });
  const attacker = await Attacker.start(bus, t);
  await besideAttack(victim, (signal) => pipelineReads(attacker, signal));
});

test('long lists that are read sixteen at a time keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await attacker.subscribe([attacker.topic], answer.status(204));
  await putDeadLetters(bus.store, attacker.client.token, 1000);
  const paths = ['/dead_letters?limit=1000', '/dead_letters?reason=max_attempts'];
  await besideAttack(victim, (signal) =>
    atOnce(signal, (line) => attacker.tries('GET', paths[line % paths.length] ?? '')),
  );
  await bus.root.call('DELETE', `/api_tokens/${attacker.client.token}`);
});

test('subscriptions to a thousand topics, replaced sixteen at a time, keep nobody waiting', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const callback = await attacker.sink();
  const sets = ['a', 'b'].map((set) =>
    Array.from({ length: 1000 }, (_, n) => `${attacker.topic}_${set}${n}`),
  );
  await besideAttack(victim, (signal) =>
    atOnce(signal, (line, turn) => {
      const topics = sets[(line + turn) % sets.length];
      return attacker.tries('POST', '/subscription', { topics, callback, uuid: 'evil' });
    }),
  );
  await bus.root.call('DELETE', `/api_tokens/${attacker.client.token}`);
});
