import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { busWithDefaultLimits } from '../../../harness/fences/victim.ts';
import { until } from '../../../harness/until.ts';

const bus = busWithDefaultLimits();
const EVENT = JSON.stringify({ type: 'noop', url: 'https://evil.example.com/1' });
const CALLBACK = 'http://127.0.0.1:1/';

/** Sends a request without the last byte of its body. The returned function sends it, and resolves with the status. */
async function begin(t: TestContext, attacker: Attacker, path: string, body: string) {
  const connection = await attacker.connect();
  t.after(() => connection.close());
  const request = attacker.request('POST', path, { body });
  // When the bus asks for the body by `100 Continue`, it has accepted the credentials.
  const [head = '', rest = ''] = request.split('\r\n\r\n');
  connection.write(`${head}\r\nexpect: 100-continue\r\n\r\n`);
  await until(() => connection.receivedBytes > 0);
  connection.write(rest.slice(0, -1));
  return async () => {
    connection.write(rest.slice(-1));
    await until(() => connection.statuses.some((status) => status >= 200) || !connection.open);
    return connection.statuses.find((status) => status >= 200);
  };
}

const rotate = (token: string) => bus.root.call('POST', `/api_tokens/${token}/secret`, { grace: 0 });
const remove = (token: string) => bus.root.call('DELETE', `/api_tokens/${token}`);

describe('a call whose body is held back', () => {
  for (const [what, revoke] of [
    ['the secret is replaced', rotate],
    ['the client is removed', remove],
  ] as const) {
    test(`changes no subscription once ${what}`, async (t) => {
      const attacker = await Attacker.start(bus, t);
      const body = JSON.stringify({
        topics: ['mine'],
        callback: CALLBACK,
        uuid: 'evil',
        signing_secret: true,
      });
      const end = await begin(t, attacker, '/subscription', body);
      await revoke(attacker.client.token);
      assert.equal(await end(), 401);
      const subscribers = (await bus.root.call('GET', '/subscribers')) as { subscriber: string }[];
      assert.ok(!subscribers.some(({ subscriber }) => subscriber === attacker.client.token));
    });

    test(`publishes nothing a second after ${what}`, async (t) => {
      const attacker = await Attacker.start(bus, t);
      const end = await begin(t, attacker, '/topics/stolen', EVENT);
      await revoke(attacker.client.token);
      // The directory of clients may remember a client for a second.
      const began = performance.now();
      await until(() => performance.now() - began > 1000);
      assert.equal(await end(), 401);
      const topics = (await bus.root.call('GET', '/topics')) as { name: string }[];
      assert.ok(!topics.some(({ name }) => name === 'stolen'));
    });
  }
});

test('a call without a body is judged by Redis as well', async (t) => {
  const attacker = await Attacker.start(bus, t);
  await attacker.client.call('POST', '/topics/theirs', JSON.parse(EVENT));
  await rotate(attacker.client.token);
  await assert.rejects(attacker.client.call('DELETE', '/topics/theirs'), /401/);
});
