import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { CallbackPolicy } from '../../src/services/callback_policy.ts';
import { Delivery } from '../../src/services/delivery.ts';
import { RUBY_EVENT } from '../support/ruby_redis.ts';

test('the status settles a delivery: a body that never ends holds no worker', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nand then'));
  });
  t.after(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const limits = { deliveryTimeoutMs: 60_000, connectTimeoutMs: 2000, sslVerify: true };
  const delivery = new Delivery(limits, new CallbackPolicy(['127.0.0.1']));
  t.after(() => delivery.close());
  const callback = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const batch = { bid: 'b'.repeat(20), token: 'me', createdAtMs: 0, attempts: 1, events: [RUBY_EVENT] };
  const subscriber = { callback, uuid: '', healthPoints: 100 };
  const outcome = await delivery.deliver(batch, subscriber, new AbortController().signal);
  assert.deepEqual(outcome, { taken: true });
});
