import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { reasonOf, type SenderOptions, sender } from '../../../harness/http/sender.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { threadCpuSince } from '../../../harness/thread_cpu.ts';
import { until } from '../../../harness/until.ts';

const MEGABYTE = 1024 * 1024;

/** A server that calls a function for each connection that has sent something, and counts the bytes it could write. */
class HostileServer {
  readonly sockets: Socket[] = [];
  readonly #server = createServer((socket) => {
    this.sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => this.#behave(socket));
  });
  readonly #behave: (socket: Socket) => void;
  #port = 0;

  static async start(t: TestContext, behave: (socket: Socket) => void): Promise<HostileServer> {
    const server = new HostileServer(behave);
    t.after(() => server.#server.close());
    server.#port = await listenLocally(server.#server);
    return server;
  }

  private constructor(behave: (socket: Socket) => void) {
    this.#behave = behave;
  }

  url(scheme = 'http'): string {
    return `${scheme}://127.0.0.1:${this.#port}/`;
  }

  /** Resolves when the bus has closed all connections. */
  async left(): Promise<void> {
    await until(() => this.sockets.length > 0 && this.sockets.every(({ destroyed }) => destroyed));
  }

  get written(): number {
    return this.sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  }
}

/** Writes a head, and then the text again and again: as fast as it is taken, or once every few ms. */
const flood = (socket: Socket, text: string, head = '') => {
  socket.write(head);
  const more = () => {
    while (!socket.destroyed && socket.write(text));
  };
  socket.on('drain', more);
  more();
};
const drip = (socket: Socket, text: string, head = '') => {
  socket.write(head);
  const timer = setInterval(() => socket.write(text), 20);
  socket.once('close', () => clearInterval(timer));
};

const send = (t: TestContext, options: SenderOptions = {}) => sender(t, { allow: ['127.0.0.1'], ...options });

for (const [what, head, piece] of [
  ['one header', 'HTTP/1.1 200 OK\r\nx: ', 'x'.repeat(1000)],
  ['headers', 'HTTP/1.1 200 OK\r\n', 'a: b\r\n'.repeat(100)],
] as const) {
  test(`${what} without end is cut off after 16 KiB and fails`, async (t) => {
    const server = await HostileServer.start(t, (socket) => flood(socket, piece, head));
    const outcome = await send(t)(server.url());
    assert.match(reasonOf(outcome), /HEADERS_OVERFLOW|HPE_/);
    await server.left();
    assert.ok(server.written < 20 * MEGABYTE, `${server.written} bytes`);
  });
}

for (const [what, head] of [
  ['headers', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(16_300)}\r\n`],
  ['trailers', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: ${'x'.repeat(16_300)}\r\n`],
] as const) {
  test(`too many ${what} at once cost the bus little`, async (t) => {
    const server = await HostileServer.start(t, (socket) => socket.write(head + 'a:b\r\n'.repeat(9000)));
    const deliver = send(t);
    await deliver(server.url());
    const tookMs = threadCpuSince();
    for (let i = 0; i < 5; i++) await deliver(server.url());
    await server.left();
    assert.equal(server.sockets.length, 6);
    assert.ok(tookMs() < 250, `${tookMs()} ms`);
  });
}

test('a body without end is cut off after 64 KiB; the status counts', async (t) => {
  const server = await HostileServer.start(t, (socket) =>
    flood(socket, 'x'.repeat(1000), 'HTTP/1.1 200 OK\r\n\r\n'),
  );
  assert.deepEqual(await send(t)(server.url()), { accepted: true, status: 200 });
  await server.left();
  assert.ok(server.written < 20 * MEGABYTE, `${server.written} bytes`);
});

for (const [what, behave] of [
  ['never answers', () => {}],
  ['drips its headers', (socket) => drip(socket, 'a: b\r\n', 'HTTP/1.1 200 OK\r\n')],
  ['has a status line without end', (socket) => flood(socket, 'O'.repeat(1000), 'HTTP/1.1 200 ')],
  ['says "wait" for ever', (socket) => drip(socket, 'HTTP/1.1 102 Processing\r\n\r\n')],
] as [string, (socket: Socket) => void][]) {
  test(`a callback that ${what} fails, and its connection is closed, when the time is over`, async (t) => {
    const server = await HostileServer.start(t, behave);
    assert.equal(
      reasonOf(await send(t, { deliveryTimeoutMs: 300 })(server.url())),
      'no answer within 300 ms',
    );
    await server.left();
  });
}

test('a callback that floods informational responses fails at once', async (t) => {
  const server = await HostileServer.start(t, (socket) => flood(socket, 'HTTP/1.1 102 Processing\r\n\r\n'));
  assert.match(reasonOf(await send(t)(server.url())), /too many informational responses/);
  await server.left();
});

test('a callback that never completes the TLS handshake fails at the connect timeout', async (t) => {
  const server = await HostileServer.start(t, () => {});
  const outcome = await send(t, { connectTimeoutMs: 200 })(server.url('https'));
  assert.match(reasonOf(outcome), /^UND_ERR_CONNECT_TIMEOUT/);
  await server.left();
});

test('a name that never resolves fails at the connect timeout', async (t) => {
  const never = () => new Promise<string[]>(() => {});
  const outcome = await send(t, { connectTimeoutMs: 200, resolve: never })('https://hooks.example/');
  assert.match(reasonOf(outcome), /^UND_ERR_CONNECT_TIMEOUT/);
});

test('a compressed answer is not unpacked', async (t) => {
  const server = await HostileServer.start(t, (socket) =>
    socket.end('HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbomb'),
  );
  const outcome = await send(t)(server.url());
  assert.equal(outcome.accepted ? '' : outcome.answer, 'bomb');
});

test('a refusal that quotes the credentials of the delivery is kept without them, whole or cut off', async (t) => {
  const server = await HostileServer.start(t, (socket) => {
    const quoted = `{"authorization":"Basic ${btoa(`${uuid}:x`)}","user":"${uuid}"}`;
    const told = `${quoted}${' '.repeat(230 - quoted.length)}${btoa(uuid)}`;
    socket.end(`HTTP/1.1 500 No\r\nContent-Length: ${told.length}\r\n\r\n${told}`);
  });
  const uuid = 'shop--0123456789abcdefghij';
  const outcome = await send(t)(server.url(), { uuid });
  const answer = outcome.accepted ? '' : (outcome.answer ?? '');
  assert.match(answer, /^\{"authorization":"Basic …","user":"…"\} +…$/);
});

test('a second answer to one request is discarded, and the next delivery gets a new connection', async (t) => {
  const server = await HostileServer.start(t, (socket) =>
    socket.write('HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
  );
  const deliver = send(t);
  for (let i = 0; i < 2; i++) assert.equal(reasonOf(await deliver(server.url())), 'HTTP 500');
  assert.equal(server.sockets.length, 2);
});
