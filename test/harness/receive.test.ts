import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryLines } from '../../harness/local/delivery_lines.ts';
import { Command } from '../../harness/processes/command.ts';
import { freePort } from '../../harness/processes/ports.ts';

const event = {
  id: 'order-1',
  topic: 'orders',
  type: 'create',
  url: 'https://shop.example.com/orders/1',
  t: 1_000,
};

test('bin/receive prints the batches that are delivered to it, and refuses other bodies', async () => {
  const port = await freePort();
  const receive = new Command('receive', [String(port)]);
  await receive.prints(/waiting for batches/);
  const post = (body: string, method = 'POST') =>
    fetch(`http://127.0.0.1:${port}/events`, {
      method,
      headers: { 'webhook-id': 'b1', 'routemaster-gap': 'batches=1' },
      ...(method === 'POST' && { body }),
    });
  assert.equal((await post(JSON.stringify([event]))).status, 204);
  await receive.prints(
    /dropped for lack of memory: batches=1\nbatch b1: 1 event\n {2}order-1 {2}orders {2}create {2}https:\/\/shop.example.com\/orders\/1 /,
  );
  assert.equal((await post('{')).status, 400);
  assert.equal((await post('{}')).status, 400);
  assert.equal((await post('', 'GET')).status, 405);
  const second = new Command('receive', [String(port)]);
  assert.equal(await second.exitCode, 1);
  assert.match(
    second.output,
    /port \d+ is taken, .*stop that, or give another port\. .*ROUTEMASTER_CALLBACK_PORTS=443,9292,PORT/,
  );
  receive.signal('SIGINT');
  assert.equal(await receive.exitCode, 0);
});

test('a batch is shown with its attempt, and each event with its age and data', () => {
  const events = [event, { ...event, topic: 'customers', type: 'noop', data: { vip: true } }];
  assert.deepEqual(deliveryLines({ id: 'b2', attempt: 3, events }, 1_250), [
    'batch b2: 2 events, attempt 3',
    '  order-1  orders     create  https://shop.example.com/orders/1  250 ms old',
    '  order-1  customers  noop    https://shop.example.com/orders/1  250 ms old  {"vip":true}',
  ]);
});

test('a drop notice is shown before the batch that carries it', () => {
  const gap = 'batches=2, events=150, from=17, to=18, topics=("orders";events=150)';
  assert.deepEqual(deliveryLines({ id: 'b3', attempt: 1, gap, events: [event] }, 1_250), [
    `dropped for lack of memory: ${gap}`,
    'batch b3: 1 event',
    '  order-1  orders  create  https://shop.example.com/orders/1  250 ms old',
  ]);
});
