import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { readText } from '../../../src/api/body.ts';
import { HttpServer, SERVER_LIMITS, type ServerLimits } from '../../../src/api/server.ts';
import { until } from '../../support/until.ts';

/** Quick enough for a test, and far from each other. */
const QUICK: Partial<ServerLimits> = {
  headersTimeoutMs: 200,
  requestTimeoutMs: 600,
  keepAliveTimeoutMs: 100,
  silenceTimeoutMs: 5000,
  checkEveryMs: 20,
};

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;
const OK: Answer = (_request, response) => response.end('ok');

async function serve(t: TestContext, limits: Partial<ServerLimits>, answer = OK): Promise<number> {
  const server = new HttpServer((request, response) => void answer(request, response), limits);
  t.after(() => server.close(0));
  return server.listen(0);
}

interface Line {
  socket: Socket;
  /** What came until now. */
  text: () => string;
  /** All that came, and how long it took the other end to close. */
  ended: Promise<{ text: string; tookMs: number }>;
}

async function open(t: TestContext, port: number, bytes = ''): Promise<Line> {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  let text = '';
  socket.setEncoding('latin1').on('data', (more) => {
    text += more;
  });
  socket.on('error', () => {});
  await once(socket, 'connect');
  const beganMs = performance.now();
  if (bytes !== '') socket.write(bytes, 'latin1');
  const ended = once(socket, 'close').then(() => ({ text, tookMs: performance.now() - beganMs }));
  return { socket, text: () => text, ended };
}

test('who says nothing is gone after the time for headers', async (t) => {
  const { ended } = await open(t, await serve(t, QUICK));
  const { tookMs } = await ended;
  assert.ok(tookMs >= 150, `${tookMs} ms`);
});

test('who sends headers a byte at a time is answered 408, and gone', async (t) => {
  const { socket, ended } = await open(t, await serve(t, QUICK), 'GET / HTTP/1.1\r\n');
  const drip = setInterval(() => socket.writable && socket.write('X'), 20);
  const { text, tookMs } = await ended;
  clearInterval(drip);
  assert.match(text, /^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
  assert.ok(tookMs >= 150, `${tookMs} ms`);
});

test('who sends a body a byte at a time is answered 408, and gone', async (t) => {
  const port = await serve(t, QUICK, (request, response) =>
    readText(request).then(
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

test('a connection is kept between requests, but not for ever', async (t) => {
  const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  const { socket, text, ended } = await open(t, await serve(t, QUICK), get);
  await until(() => text().endsWith('ok'));
  socket.write(get);
  await until(() => text().match(/ok/g)?.length === 2);
  assert.match(text(), /Connection: keep-alive/);
  await ended;
});

test('who does not read the answer is gone after a silence', async (t) => {
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

test('who is beyond the cap of connections is closed at once; when one leaves there is room again', async (t) => {
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

test('there are limits unless they are set', () => {
  for (const limit of Object.values(SERVER_LIMITS)) assert.ok(limit > 0 && limit < Number.POSITIVE_INFINITY);
});

test('a request that is followed by garbage in one segment gets its own answer, then the refusal comes', async (t) => {
  const slowly: Answer = async (_request, response) => {
    await pause(50);
    response.end('mine');
  };
  const port = await serve(t, {}, slowly);
  for (const requests of [1, 3]) {
    const bytes = `${'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(requests)}\0garbage\r\n\r\n`;
    const { text } = await (await open(t, port, bytes)).ended;
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    assert.deepEqual(statuses, [...Array(requests).fill('200'), '400'], text);
    assert.equal(text.match(/mine/g)?.length, requests);
  }
});

test('garbage within a request is refused at once, though its answer is due', async (t) => {
  const port = await serve(t, {}, async (request, response) => {
    await readText(request).catch(() => {});
    response.end('mine');
  });
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  const { text } = await (await open(t, port, `${head}2\r\n{}\r\nnone\r\n`)).ended;
  assert.match(text, /^HTTP\/1\.1 400 /);
});

test('the answer to a request that ends its connection comes, whatever follows it', async (t) => {
  const port = await serve(t, {}, (_request, response) => setTimeout(() => response.end('mine'), 50));
  const bytes = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\0garbage\r\n\r\n';
  const { text } = await (await open(t, port, bytes)).ended;
  assert.match(text, /^HTTP\/1\.1 200 .*mine$/s);
});
