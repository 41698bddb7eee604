import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { until } from '../../harness/until.ts';
import { withoutSpaces } from '../../harness/without_spaces.ts';
import { bus } from './default_bus.ts';

const HOUR_MS = 3_600_000;
const url = (n: number) => `https://shop.example.com/widgets/${n}`;

test('one event arrives as it was published, in a request with exactly the documented headers', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { timeout: 20, max: 100 });
  await publisher.publish(topic, {
    id: 'order-7',
    type: 'update',
    url: url(1),
    timestamp: 1_473_080_555_409,
  });
  const { method, path, headers, body, id } = await receiver.delivery(1);
  assert.equal(method, 'POST');
  assert.equal(path, '/events?from=bus');
  assert.equal(
    withoutSpaces(body),
    `[{"id":"order-7","topic":"${topic}","type":"update","url":"${url(1)}","t":1473080555409}]`,
  );
  assert.match(id, /^[A-Za-z0-9_-]{20}$/);
  assert.deepEqual(headers, {
    host: new URL(receiver.callback).host,
    connection: 'keep-alive',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    authorization: `Basic ${btoa('me:x')}`,
    'user-agent': 'routemaster',
    'webhook-id': id,
    'routemaster-attempt': '1',
  });
});

test('without a timestamp, an event has the time of its acceptance', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  const before = Date.now();
  await publisher.publish(topic, { url: url(1) });
  const after = Date.now();
  const [event] = (await receiver.delivery(1)).events;
  assert.ok(event && event.t >= before && event.t <= after);
});

test('the events of two topics reach one subscriber in the order of their acceptance', async (t) => {
  const [publisher, subscriber] = [await bus.client('shop'), await bus.client('search')];
  const receiver = await bus.receiver(t);
  const topics = ['orders', 'customers'];
  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', { topics, callback, timeout: HOUR_MS, max: 10 });
  for (let n = 0; n < 10; n++) await publisher.publish(topics[n % 2] as string, { url: url(n) });
  const { events } = await receiver.delivery(1);
  assert.deepEqual(
    events.map((event) => [event.topic, event.url]),
    Array.from({ length: 10 }, (_, n) => [topics[n % 2], url(n)]),
  );
});

test('a full batch is delivered at once, although its deadline is an hour away', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: HOUR_MS, max: 3 });
  for (let n = 1; n <= 2; n++) await publisher.publish(topic, { url: url(n) });
  await until(async () => (await subscriber.report()).events.queued === 2);
  await publisher.publish(topic, { url: url(3) });
  assert.deepEqual(
    (await receiver.delivery(1)).events.map((event) => event.url),
    [url(1), url(2), url(3)],
  );
  assert.equal(receiver.deliveries.length, 1);
});

test('an array larger than a batch is delivered in full batches, and its rest waits', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: HOUR_MS, max: 3 });
  await publisher.publish(
    topic,
    [1, 2, 3, 4, 5, 6, 7].map((n) => ({ url: url(n) })),
  );
  await receiver.delivery(2);
  const batches = receiver.deliveries.map(({ events }) => events.map((event) => event.url)).sort();
  assert.deepEqual(batches, [
    [url(1), url(2), url(3)],
    [url(4), url(5), url(6)],
  ]);
  await until(async () => (await subscriber.report()).events.queued === 1);
});

test('a batch that is not full is delivered at its deadline, not before', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { timeout: 400, max: 100 });
  const beganMs = performance.now();
  for (let n = 1; n <= 3; n++) await publisher.publish(topic, { url: url(n) });
  const { atMs, events } = await receiver.delivery(1);
  assert.ok(atMs - beganMs >= 399, `it took ${atMs - beganMs} ms`);
  assert.equal(events.length, 3);
});

test('with a timeout of 0 and batches of one, each event is delivered alone and at once', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { timeout: 0, max: 1 });
  for (let n = 1; n <= 5; n++) {
    await publisher.publish(topic, { url: url(n) });
    const { events } = await receiver.delivery(n);
    assert.deepEqual(
      events.map((event) => event.url),
      [url(n)],
    );
  }
});

test('data arrives as it was sent', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  const texts = [
    '{"text":"Zoë 🎈 \\u0000\\u2028 \\"quoted\\" \\\\","":"empty key"}',
    '{"nested":[[],{},[{"deep":[null,true,false]}]]}',
    '{"numbers":[0,-1,1.5,1e21,5e-324,9007199254740991,-9007199254740991,4294967296,1e-7]}',
    '{"__proto__":{"polluted":true},"constructor":{"prototype":1},"hasOwnProperty":1}',
    '"text"',
    '[1,2,3]',
    'false',
    '0',
  ];
  for (const [index, text] of texts.entries()) {
    const body = `{"type":"noop","url":"${url(index)}","data":${text}}`;
    const response = await fetch(`${bus.url}/topics/${topic}`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${publisher.token}:${publisher.secret}`)}` },
      body,
    });
    assert.equal(response.status, 204, await response.text());
    const delivery = await receiver.delivery(index + 1);
    // Taken from the text of the body: parsed, "__proto__" would be equal to anything.
    const data = /"data":(.*)\}\]$/s.exec(delivery.body)?.[1] ?? '';
    assert.equal(JSON.stringify(JSON.parse(data)), JSON.stringify(JSON.parse(text)));
  }
});

test('curl --digest publishes', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  const body = JSON.stringify({ type: 'create', url: url(1) });
  const user = `${publisher.token}:${publisher.secret}`;
  const args = [
    '-sS',
    '-w',
    '%{http_code}',
    '--digest',
    '-u',
    user,
    '-d',
    body,
    `${bus.url}/topics/${topic}`,
  ];
  const { stdout } = await promisify(execFile)('curl', args);
  assert.equal(stdout, '204');
  await receiver.delivery(1);
  assert.deepEqual(receiver.urls, [url(1)]);
});

test('the report of a subscriber counts sent and queued events', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 300, max: 100 });
  const { events: none, last_attempted_at: never } = await subscriber.report();
  assert.deepEqual([none, never], [{ sent: 0, queued: 0, oldest: null }, null]);
  const beganMs = Date.now();
  await publisher.publish(topic, [{ url: url(1) }, { url: url(2) }]);
  const waiting = await until(async () => {
    const report = await subscriber.report();
    return report.events.queued === 2 ? report : undefined;
  });
  assert.equal(waiting.events.sent, 0);
  assert.ok(Number(waiting.events.oldest) >= beganMs && Number(waiting.events.oldest) <= Date.now());
  await receiver.delivery(1);
  const done = await until(async () => {
    const report = await subscriber.report();
    return report.events.queued === 0 ? report : undefined;
  });
  assert.deepEqual(done.events, { sent: 2, queued: 0, oldest: null });
  assert.ok(Number(done.last_attempted_at) >= beganMs + 300);
  assert.equal(done.health_points, 100);
});
