import assert from 'node:assert/strict';
import { subscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { until } from '../../../harness/until.ts';
import { readConfig } from '../../../src/config.ts';
import { readBytes, textOf } from '../../../src/http/body.ts';
import { HttpServer, SERVER_LIMITS, type ServerLimits, SWEEP_MS } from '../../../src/http/server.ts';

const DEFAULTS = readConfig({ ROUTEMASTER_ROOT_KEY: 'key' });

/** Limits short enough for a test, and far enough apart to tell which one applied. */
const QUICK: Partial<ServerLimits> = {
  headersTimeoutMs: 200,
  requestTimeoutMs: 600,
  keepAliveTimeoutMs: 100,
  silenceTimeoutMs: 5000,
  checkEveryMs: 20,
};

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;
/** Answers after everything that came in the same segment is parsed. */
const slowly: Answer = async (_request, response) => {
  await setImmediate();
  response.end('mine');
};
const OK: Answer = (_request, response) => response.end('ok');

async function serve(t: TestContext, limits: Partial<ServerLimits>, answer = OK): Promise<number> {
  const server = new HttpServer((request, response) => void answer(request, response), {
    ...DEFAULTS,
    ...limits,
  });
  t.after(() => server.close(0));
  return server.listen(0);
}

interface Line {
  socket: Socket;
  /** Returns the bytes received so far. */
  text: () => string;
  /** Returns how many bytes the server has received. */
  received: () => number;
  /** Resolves when the connection is closed, with all bytes received and the time since it was opened. */
  ended: Promise<{ text: string; tookMs: number }>;
}

/** The server's side of all connections. */
const accepted: Socket[] = [];
subscribe('net.server.socket', (message) => accepted.push((message as { socket: Socket }).socket));

async function open(t: TestContext, port: number, bytes = ''): Promise<Line> {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  let text = '';
  socket.setEncoding('latin1').on('data', (more) => {
    text += more;
  });
  socket.on('error', () => {});
  await once(socket, 'connect');
  const received = () =>
    accepted.findLast(({ remotePort }) => remotePort === socket.localPort)?.bytesRead ?? 0;
  const beganMs = performance.now();
  if (bytes !== '') socket.write(bytes, 'latin1');
  const ended = once(socket, 'close').then(() => ({ text, tookMs: performance.now() - beganMs }));
  return { socket, text: () => text, received, ended };
}

test('a connection that sends nothing is closed after the time for headers', async (t) => {
  const { ended } = await open(t, await serve(t, QUICK));
  const { tookMs } = await ended;
  assert.ok(tookMs >= 150, `${tookMs} ms`);
});

test('headers that arrive a byte at a time are answered 408, and the connection is closed', async (t) => {
  const { socket, ended } = await open(t, await serve(t, QUICK), 'GET / HTTP/1.1\r\n');
  const drip = setInterval(() => socket.writable && socket.write('X'), 20);
  const { text, tookMs } = await ended;
  clearInterval(drip);
  assert.match(text, /^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
  assert.ok(tookMs >= 150, `${tookMs} ms`);
});

test('a body that arrives a byte at a time is answered 408, and the connection is closed', async (t) => {
  const port = await serve(t, QUICK, (request, response) =>
    readBytes(request).then(
      () => response.end('ok'),
      () => {},
    ),
  );
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n';
  const { socket, ended } = await open(t, port, head);
  const drip = setInterval(() => socket.writable && socket.write('1'), 20);
  const { text, tookMs } = await ended;
  clearInterval(drip);
  assert.match(text, /^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
  assert.ok(tookMs >= 500, 'a body may take longer than headers');
});

test('a connection is kept between requests, but closed after a while without any', async (t) => {
  const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  const { socket, text, ended } = await open(t, await serve(t, QUICK), get);
  await until(() => text().endsWith('ok'));
  socket.write(get);
  await until(() => text().match(/ok/g)?.length === 2);
  assert.match(text(), /Connection: keep-alive/);
  await ended;
});

test('a connection whose client does not read the answer is closed after the silence timeout', async (t) => {
  let closed = false;
  const port = await serve(t, { ...QUICK, silenceTimeoutMs: 200 }, (_request, response) => {
    response.on('close', () => {
      closed = true;
    });
    response.end(Buffer.alloc(64 * 1024 * 1024));
  });
  const { socket } = await open(t, port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  socket.pause();
  await until(() => closed);
});

test('a connection beyond the maximum is closed at once; there is room again when another closes', async (t) => {
  const port = await serve(t, { maxConnections: 3 });
  const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  const inside = [await open(t, port, get), await open(t, port, get), await open(t, port, get)];
  await until(() => inside.every(({ text }) => text().endsWith('ok')));
  const outside = await open(t, port, get);
  assert.equal((await outside.ended).text, '');
  inside[0]?.socket.destroy();
  await until(async () => {
    const again = await open(t, port, get);
    await until(() => again.text().endsWith('ok') || again.socket.destroyed);
    return again.text().endsWith('ok');
  });
});

describe('a server that closes', () => {
  const SIZE = 32 * 1024 * 1024;

  async function begin(t: TestContext, answer: Answer) {
    const server = new HttpServer((request, response) => void answer(request, response), DEFAULTS);
    t.after(() => server.close(0));
    return { server, line: await open(t, await server.listen(0)) };
  }

  test('sends the whole of a response that is written', async (t) => {
    let isWritten = false;
    const { server, line } = await begin(t, (_request, response) => {
      response.end(Buffer.alloc(SIZE));
      isWritten = true;
    });
    line.socket.pause().write(GET);
    await until(() => isWritten);
    const closed = server.close(20_000);
    line.socket.resume();
    const { text } = await line.ended;
    assert.ok(text.length > SIZE, `${text.length}`);
    await closed;
  });

  test('answers requests on connections that the kernel has made, but the process has not accepted', async (t) => {
    const server = new HttpServer((request, response) => void OK(request, response), DEFAULTS);
    t.after(() => server.close(0));
    const port = await server.listen(0);
    const lines = Array.from({ length: 20 }, () => open(t, port, GET));
    // The kernel makes the connections now. This process accepts them in later turns of the event loop.
    await new Promise((resolve) => process.nextTick(resolve));
    const closed = server.close(20_000);
    for (const line of lines) assert.match((await (await line).ended).text, /Connection: close.*ok$/s);
    await closed;
  });

  test('says so with the last response, and handles no request behind that', async (t) => {
    const paths: (string | undefined)[] = [];
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { server, line } = await begin(t, async ({ url }, response) => {
      paths.push(url);
      await released;
      response.end(url);
    });
    line.socket.write(GET + GET.replace('/', '/second'));
    await until(() => paths.length === 2);
    const closed = server.close(20_000);
    const bytes = line.received();
    line.socket.write(GET.replace('/', '/third'));
    await until(() => line.received() > bytes);
    release();
    const { text } = await line.ended;
    assert.deepEqual(text.match(/Connection: .*/g), ['Connection: keep-alive', 'Connection: close']);
    assert.match(text, /\/second$/);
    assert.deepEqual(paths, ['/', '/second']);
    await closed;
  });

  test('answers a request that comes in parts', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const { server, line } = await begin(t, OK);
    const send = async (part: string) => {
      const bytes = line.received();
      line.socket.write(part);
      await until(() => line.received() > bytes);
    };
    await send('GET / ');
    const closed = server.close(20_000);
    for (const part of ['HTTP/1.1\r\n', 'Host: a\r\n']) {
      await send(part);
      t.mock.timers.tick(SWEEP_MS);
    }
    line.socket.write('\r\n');
    assert.match((await line.ended).text, /Connection: close.*ok$/s);
    await closed;
  });

  test('answers a request that comes on a connection with another one under way, and no more', async (t) => {
    const paths: (string | undefined)[] = [];
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { server, line } = await begin(t, async ({ url }, response) => {
      paths.push(url);
      response.write('begun ');
      await released;
      response.end(url);
    });
    line.socket.write(GET);
    await until(() => paths.length === 1);
    const closed = server.close(20_000);
    line.socket.write(GET.replace('/', '/second') + GET.replace('/', '/third'));
    await until(() => paths.length === 2);
    release();
    const { text } = await line.ended;
    assert.match(text, /Connection: close.*\/second/s);
    assert.deepEqual(paths, ['/', '/second']);
    await closed;
  });
});

test('every limit has a default', () => {
  const { requestTimeoutMs, maxConnections } = DEFAULTS;
  for (const limit of [...Object.values(SERVER_LIMITS), requestTimeoutMs, maxConnections])
    assert.ok(limit > 0 && limit < Number.POSITIVE_INFINITY);
});

test('a request that is followed by garbage in one segment is answered first, then the garbage is refused', async (t) => {
  const port = await serve(t, {}, slowly);
  for (const requests of [1, 3]) {
    const bytes = `${'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(requests)}\0garbage\r\n\r\n`;
    const { text } = await (await open(t, port, bytes)).ended;
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    assert.deepEqual(statuses, [...Array(requests).fill('200'), '400'], text);
    assert.equal(text.match(/mine/g)?.length, requests);
  }
});

test('garbage within a request is refused at once, before the request is answered', async (t) => {
  const port = await serve(t, {}, async (request, response) => {
    await readBytes(request).catch(() => {});
    response.end('mine');
  });
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  const { text } = await (await open(t, port, `${head}2\r\n{}\r\nnone\r\n`)).ended;
  assert.match(text, /^HTTP\/1\.1 400 /);
});

test('a request with Connection: close is answered, whatever follows it', async (t) => {
  const port = await serve(t, {}, slowly);
  const bytes = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\0garbage\r\n\r\n';
  const { text } = await (await open(t, port, bytes)).ended;
  assert.match(text, /^HTTP\/1\.1 200 .*mine$/s);
});

describe('a request with an Upgrade header', () => {
  const UPGRADE = 'Connection: upgrade\r\nUpgrade: h2c\r\n';
  const wanting = (body = 'hi') =>
    `POST / HTTP/1.1\r\nHost: a\r\n${UPGRADE}Content-Length: ${body.length}\r\n\r\n${body}`;
  const count = (text: string) => text.match(/HTTP\/1\.1 200/g)?.length ?? 0;
  const echo: Answer = async (request, response) => {
    const { url, headers } = request;
    const text = textOf(await readBytes(request));
    if (url === '/slow') await setImmediate();
    response.end(`<${text}${headers.upgrade ?? ''}>`);
  };

  test('is answered like any other, in order with the requests around it', async (t) => {
    const port = await serve(t, {}, echo);
    const bytes = `${GET.replace('/', '/slow')}${wanting('one')}${GET}${wanting('two')}${wanting('three')}${GET}`;
    for (const cut of [bytes.length, 30, 200, bytes.length - 40]) {
      const { socket, text, received } = await open(t, port, bytes.slice(0, cut));
      await until(() => received() === cut);
      socket.write(bytes.slice(cut));
      await until(() => count(text()) === 6);
      assert.deepEqual(text().match(/<.*?>/g), ['<>', '<one>', '<>', '<two>', '<three>', '<>']);
    }
  });

  test('leaves no listener on its connection, however often it is repeated', async (t) => {
    let connection: Socket | undefined;
    const port = await serve(t, {}, (request, response) => {
      connection = request.socket;
      return echo(request, response);
    });
    const { socket, text } = await open(t, port, wanting());
    const listeners = () =>
      connection?.eventNames().map((name) => [String(name), connection?.listenerCount(name)]);
    await until(() => count(text()) === 1);
    const first = listeners();
    for (let n = 2; n < 30; n++) {
      socket.write(wanting());
      await until(() => count(text()) === n);
    }
    assert.deepEqual(listeners(), first);
  });

  test('ends its connection if it also has Connection: close', async (t) => {
    const port = await serve(t, {}, echo);
    const bytes = wanting('last').replace('upgrade', 'upgrade, close') + GET;
    const { text } = await (await open(t, port, bytes)).ended;
    assert.deepEqual([count(text), text.match(/<.*>/)?.[0]], [1, '<last>']);
  });

  test('does not keep a connection or the server open when an earlier answer is not read or hangs', async (t) => {
    let closed = false;
    const large: Answer = (_request, response) => {
      response.on('close', () => {
        closed = true;
      });
      response.end(Buffer.alloc(64 * 1024 * 1024));
    };
    const silent = await serve(t, { ...QUICK, silenceTimeoutMs: 200 }, large);
    const { socket } = await open(t, silent, GET + wanting());
    socket.pause();
    await until(() => closed);

    let requests = 0;
    const server = new HttpServer(() => void requests++, DEFAULTS);
    const hanging = await open(t, await server.listen(0), GET + wanting());
    await until(() => requests === 1);
    await server.close(50);
    await hanging.ended;
  });

  test('does no harm when its client resets the connection while others are answered', async (t) => {
    const seen: string[] = [];
    const port = await serve(t, {}, async (request, response) => {
      seen.push('request');
      await echo(request, response);
      seen.push('answer');
    });
    const { socket, ended } = await open(t, port, GET.replace('/', '/slow') + wanting() + GET);
    await until(() => seen.includes('request'));
    socket.resetAndDestroy();
    await ended;
    await until(() => seen.includes('answer'));
    const { text } = await open(t, port, GET);
    await until(() => count(text()) === 1);
  });
});

test('CONNECT is refused after the earlier requests are answered', async (t) => {
  const port = await serve(t, {}, slowly);
  const bytes = 'GET / HTTP/1.1\r\nHost: a\r\n\r\nCONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n';
  const { text } = await (await open(t, port, bytes)).ended;
  assert.match(text, /^HTTP\/1\.1 200 .*mineHTTP\/1\.1 405 /s);
});

test('an expectation that cannot be met is refused in order', async (t) => {
  const port = await serve(t, {}, slowly);
  const get = (more = '') => `GET / HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
  const { text } = await (await open(t, port, `${get()}${get('Expect: miracles\r\n')}\0garbage\r\n\r\n`))
    .ended;
  assert.deepEqual(
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status),
    ['200', '417', '400'],
  );
});
