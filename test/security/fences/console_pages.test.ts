import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { bus, victim } from './default_limits.ts';

/** Data of 64 KB. Indented, it would be 65 times as long. The number is one that a double cannot hold. */
const DEEP = `${'['.repeat(60)}12345678901234567${',1'.repeat(15_000)}${']'.repeat(60)}`;
const event = `{"type":"noop","url":"https://evil.example.com/","data":${DEEP}}`;

async function login({ client: { token, secret } }: Attacker): Promise<string> {
  const response = await fetch(`${bus.url}/console/login`, {
    ...{ method: 'POST', redirect: 'manual', headers: { 'sec-fetch-site': 'same-origin' } },
    body: new URLSearchParams({ user: token, password: secret }),
  });
  assert.equal(response.status, 303);
  return response.headers.get('set-cookie')?.split(';')[0] ?? '';
}

test('pages of deeply nested events delay nobody', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const { client, topic } = attacker;
  const callback = 'https://evil.example.com/';
  await client.call('POST', '/subscription', { topics: [topic], callback, max: 1000, timeout: 3_600_000 });
  await client.publish(
    topic,
    Array.from({ length: 100 }, () => JSON.parse(event)),
  );
  await client.call('PUT', '/triggers/deep', {
    topic,
    event: JSON.parse(event),
    schedule: { every: 31_536_000_000 },
  });
  const [batch] = (await client.call('GET', '/deliveries')) as { id: string }[];
  const headers = { cookie: await login(attacker), 'sec-fetch-site': 'same-origin' };
  const statuses = new Set<number>();
  for (const path of [`deliveries/${batch?.id}`, 'triggers/deep'])
    await besideAttack(victim, async (signal) => {
      while (!signal.aborted) {
        const response = await fetch(`${bus.url}/console/${path}`, { headers });
        await response.arrayBuffer();
        statuses.add(response.status);
      }
    });
  assert.ok(statuses.has(200), `${[...statuses]}`);
});
