import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { noOpenssl, selfSigned } from '../../../harness/http/certificates.ts';
import { reasonOf, type SenderOptions, sender } from '../../../harness/http/sender.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import type { DeliveryOutcome } from '../../../src/delivering/sending/delivery_exchange.ts';
import { ConnectProxy } from '../../security/callbacks/connect_proxy.ts';

const ACCEPTED = { accepted: true, status: 204 };
const accept = (socket: Socket) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n');
const close = (socket: Socket) => void socket.end();
const reset = (socket: Socket) => void socket.resetAndDestroy();

interface Tls {
  key: string;
  cert: string;
}

/** A server that answers each request by the next of `acts`, and records on which connection the request came. */
class Receiver {
  readonly requests: { text: string; connection: number }[] = [];
  callback = '';
  #connections = 0;
  readonly #acts: ((socket: Socket) => void)[];

  static async start(t: TestContext, acts: ((socket: Socket) => void)[], tls?: Tls): Promise<Receiver> {
    const receiver = new Receiver(acts);
    const serve = (socket: Socket) => receiver.#serve(socket);
    const server = tls ? createTlsServer(tls, serve) : createServer(serve);
    t.after(() => server.close());
    receiver.callback = `${tls ? 'https' : 'http'}://127.0.0.1:${await listenLocally(server)}/`;
    return receiver;
  }

  constructor(acts: ((socket: Socket) => void)[]) {
    this.#acts = acts;
  }

  get connections(): number[] {
    return this.requests.map(({ connection }) => connection);
  }

  #serve(socket: Socket): void {
    const connection = ++this.#connections;
    let text = '';
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      text += bytes;
      const length = /content-length: (\d+)/.exec(text)?.[1];
      if (!text.includes('\r\n\r\n') || (text.split('\r\n\r\n')[1] as string).length < Number(length)) return;
      this.requests.push({ text, connection });
      text = '';
      this.#acts.shift()?.(socket);
    });
  }
}

/** Returns a function that sends a batch, over the connection of the former one if that is kept. */
function sequentialSender(t: TestContext, more: SenderOptions = {}): ReturnType<typeof sender> {
  const send = sender(t, { allow: ['127.0.0.1'], ...more });
  return async (...delivery) => {
    // undici uses a connection again in the next turn of the event loop.
    await setImmediate();
    return send(...delivery);
  };
}

for (const [name, shut] of Object.entries({ close, reset })) {
  test(`a delivery on a kept connection that meets a ${name} is sent once more, on a new one`, async (t) => {
    const send = sequentialSender(t);
    const receiver = await Receiver.start(t, [accept, shut, accept, accept]);
    const signing = `whsec_${btoa('secret'.repeat(5))}`;
    for (let n = 0; n < 3; n++) assert.deepEqual(await send(receiver.callback, { signing }), ACCEPTED);
    assert.deepEqual(receiver.connections, [1, 1, 2, 3], 'the new one is for this delivery alone');
    assert.equal(
      receiver.requests[2]?.text,
      receiver.requests[1]?.text,
      'id, timestamp and signature are the same',
    );
  });

  test(`a ${name} counts as a failure on a new connection, and if it is the second`, async (t) => {
    const send = sequentialSender(t);
    const receiver = await Receiver.start(t, [shut, accept, shut, shut]);
    assert.match(reasonOf(await send(receiver.callback)), /other side closed|ECONNRESET/);
    assert.deepEqual(await send(receiver.callback), ACCEPTED);
    assert.match(reasonOf(await send(receiver.callback)), /other side closed|ECONNRESET/);
    assert.deepEqual(receiver.connections, [1, 2, 2, 3]);
  });

  test(`a ${name} after the first byte of an answer is a failure`, async (t) => {
    const begin = (text: string) => (socket: Socket) => void socket.write(text, () => shut(socket));
    for (const text of ['H', 'HTTP/1.1 102 Processing\r\n\r\n']) {
      const send = sequentialSender(t);
      const receiver = await Receiver.start(t, [accept, begin(text)]);
      assert.deepEqual(await send(receiver.callback), ACCEPTED);
      assert.equal((await send(receiver.callback)).accepted, false);
      assert.deepEqual(receiver.connections, [1, 1]);
    }
  });
}

test('a delivery is sent once more also with TLS, and through a proxy', {
  skip: noOpenssl,
}, async (t) => {
  const proxy = new ConnectProxy();
  await proxy.start();
  t.after(() => proxy.stop());
  const tls = selfSigned();
  for (const { egressProxy, identity } of [
    { identity: tls },
    { egressProxy: proxy.url },
    { egressProxy: proxy.url, identity: tls },
  ]) {
    const send = sequentialSender(t, { callbackCa: tls.cert, egressProxy });
    const receiver = await Receiver.start(t, [accept, close, accept, close], identity);
    assert.deepEqual(await send(receiver.callback), ACCEPTED);
    assert.deepEqual(await send(receiver.callback), ACCEPTED);
    assert.equal((await send(receiver.callback)).accepted, false, 'on a new connection');
    assert.deepEqual(receiver.connections, [1, 1, 2, 3]);
  }
});

test('a connection through a proxy that is found closed when a delivery begins is replaced', async (t) => {
  const proxy = createHttpServer();
  t.after(() => proxy.close());
  const tunnels: Socket[] = [];
  proxy.on('connect', (_, tunnel: Socket) => {
    tunnels.push(tunnel);
    tunnel.on('error', () => {});
    tunnel.write('HTTP/1.1 200 OK\r\n\r\n');
    tunnel.on('data', () => accept(tunnel));
  });
  const egressProxy = `http://127.0.0.1:${await listenLocally(proxy)}`;
  const send = sender(t, { allow: ['127.0.0.1'], egressProxy });
  for (let n = 0; n < 20; n++) {
    assert.deepEqual(await send('http://127.0.0.1/'), ACCEPTED);
    const tunnel = tunnels.at(-1) as Socket;
    tunnel.end();
    await once(tunnel, 'finish');
    // The end arrives in the next turn of the event loop: after undici has got the next delivery, and before it sends.
    await setImmediate();
  }
});

test('a delivery that gets no answer on a kept connection within the time limit is not sent again', async (t) => {
  const send = sequentialSender(t, { deliveryTimeoutMs: 300 });
  const receiver = await Receiver.start(t, [accept, () => {}]);
  assert.deepEqual(await send(receiver.callback), ACCEPTED);
  assert.equal(reasonOf(await send(receiver.callback)), 'no answer within 300 ms');
  assert.deepEqual(receiver.connections, [1, 1]);
});

test('the time limit of a delivery includes the sending of it once more', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'], deliveryTimeoutMs: 300 });
  const receiver = await Receiver.start(t, [accept, close, () => {}]);
  assert.deepEqual(await send(receiver.callback), ACCEPTED);
  await setImmediate();
  const delivered = send(receiver.callback);
  // A timer of the same length that is set a little later fires a little later.
  const outcome = (await Promise.race([delivered, setTimeout(300)])) as DeliveryOutcome;
  assert.equal(reasonOf(outcome), 'no answer within 300 ms');
  assert.deepEqual(receiver.connections, [1, 1, 2]);
});
