import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { idsOfSameHash } from '../../../harness/fences/same_hash.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { bus, victim } from './default_limits.ts';

test('events whose texts were chosen to have the same hash in Lua delay nobody', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const { client, topic } = attacker;
  await attacker.subscribe([topic], answer.status(410), { max: 10_000, timeout: 3_600_000 });
  const event = { type: 'noop', url: 'https://evil.example.com/', timestamp: 1 };
  const after = `","topic":"${topic}","type":"noop","url":"${event.url}","t":1}`;
  const events = idsOfSameHash(10_000, '{"id":"', after).map((id) => ({ id, ...event }));
  await besideAttack(victim, async () => {
    for (let n = 0; n < 3; n++) await client.call('POST', `/topics/${topic}`, events);
  });
  await client.call('DELETE', `/topics/${topic}`);
});
