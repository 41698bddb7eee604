import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { reasonOf, sender } from '../../../harness/http/sender.ts';
import { freePort, listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { type DeliveryOutcome, readRetryAfter } from '../../../src/delivering/sending/delivery_exchange.ts';

/** Returns a function that sends a batch to a callback at 127.0.0.1. */
function deliverer(t: TestContext, port: number): (uuid?: string) => Promise<DeliveryOutcome> {
  const send = sender(t, { allow: ['127.0.0.1'] });
  return (uuid = '') => send(`http://127.0.0.1:${port}/`, { uuid });
}

async function portOf(t: TestContext, server: Server): Promise<number> {
  t.after(() => server.close());
  return listenLocally(server);
}

for (const status of [200, 503]) {
  test(`a body that never ends after ${status} holds no worker, and its connection is closed a second later`, async (t) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write(`HTTP/1.1 ${status} So\r\nContent-Length: 1000\r\n\r\nand then`);
        const drip = setInterval(() => socket.write('.'), 50);
        socket.once('close', () => clearInterval(drip));
      });
    });
    const connected = once(server, 'connection');
    const deliver = deliverer(t, await portOf(t, server));
    const atMs = performance.now();
    const outcome = await deliver();
    assert.equal(outcome.accepted, status === 200);
    const [socket] = (await connected) as [Socket];
    await until(() => socket.closed);
    const tookMs = performance.now() - atMs;
    assert.ok(tookMs > 990, `${tookMs} ms`);
  });
}

test('each subscriber is sent its own uuid, even if it changes or the callback is shared', async (t) => {
  const users: (string | undefined)[] = [];
  const server = createHttpServer((request, response) => {
    users.push(request.headers.authorization);
    request.resume();
    response.end();
  });
  const deliver = deliverer(t, await portOf(t, server));
  const uuids = ['one', 'other', 'other', 'one'];
  for (const uuid of uuids) await deliver(uuid);
  assert.deepEqual(
    users,
    uuids.map((uuid) => `Basic ${btoa(`${uuid}:x`)}`),
  );
});

test('a body is read to its end, and the connection carries the next delivery', async (t) => {
  const sockets = new Set<Socket>();
  let answerAfterMs = 0;
  const server = createHttpServer((request, response) => {
    sockets.add(request.socket);
    request.resume();
    setTimeout(() => response.end('thank you'), answerAfterMs);
  });
  const deliver = deliverer(t, await portOf(t, server));
  assert.deepEqual(await deliver(), { accepted: true, status: 200 });
  // Lets a turn of the event loop pass, as in the bus, where an ack comes between two deliveries of a worker.
  await setImmediate();
  answerAfterMs = 1300;
  assert.deepEqual(await deliver(), { accepted: true, status: 200 });
  assert.equal(sockets.size, 1);
});

test('the kept part of a refusal is valid text, whatever its bytes', async (t) => {
  const bodies = [Buffer.from(`${'x'.repeat(255)}ü`), Buffer.of(0x80, 0x61, 0xc3, 0x28)];
  const server = createHttpServer((request, response) => {
    request.resume();
    response.writeHead(500).end(bodies.shift());
  });
  const deliver = deliverer(t, await portOf(t, server));
  for (const answer of ['x'.repeat(255), '�a�('])
    assert.deepEqual(await deliver(), {
      accepted: false,
      reason: 'HTTP 500',
      status: 500,
      retryAfterMs: undefined,
      answer,
    });
});

test('the reason names each address of a host of which none can be reached', async (t) => {
  const port = await freePort();
  const resolve = async () => ['127.0.0.1', '::1'];
  const send = sender(t, { allow: ['127.0.0.1', '::1'], resolve });
  const reason = reasonOf(await send(`http://hooks.example:${port}/`));
  assert.match(
    reason,
    new RegExp(`^E[A-Z]+: connect ECONNREFUSED 127.0.0.1:${port}; connect E[A-Z]+ ::1:${port}`),
  );
});

test('the reason of a failed handshake is that of OpenSSL, without its addresses and files', async (t) => {
  const server = createHttpServer((_, response) => response.end());
  const send = sender(t, { allow: ['127.0.0.1'] });
  const reason = reasonOf(await send(`https://127.0.0.1:${await portOf(t, server)}/`));
  assert.equal(reason, 'ERR_SSL_WRONG_VERSION_NUMBER: SSL routines: wrong version number');
});

test('white space after Retry-After does not count, as HTTP has it', async (t) => {
  const server = createServer((socket) => {
    socket.once('data', () =>
      socket.end('HTTP/1.1 503 So\r\nRetry-After: 120 \r\nContent-Length: 0\r\n\r\n'),
    );
  });
  const outcome = await deliverer(t, await portOf(t, server))();
  assert.equal(outcome.accepted || outcome.retryAfterMs, 120_000);
});

test('Retry-After is a number of seconds, or a date by the clock of the answer', () => {
  const at = (ms: number) => new Date(ms).toUTCString();
  assert.equal(readRetryAfter('120'), 120_000);
  assert.equal(readRetryAfter(at(90_000), at(30_000)), 60_000, 'whatever this host believes');
  assert.equal(readRetryAfter(at(30_000), at(90_000)), 0);
  const byOurs = readRetryAfter(at(Date.now() + 60_000)) ?? 0;
  assert.ok(byOurs > 50_000 && byOurs <= 60_000, `${byOurs}`);
  for (const nonsense of ['soon', '']) assert.equal(readRetryAfter(nonsense, at(0)), undefined);
  assert.equal(readRetryAfter(undefined), undefined);
});
