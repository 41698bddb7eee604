import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { until } from '../../../harness/until.ts';
import { readConfig } from '../../../src/config.ts';
import { readBytes, textOf } from '../../../src/http/body.ts';
import { HttpServer, type ServerLimits } from '../../../src/http/server.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

const get = (path: string | number, more = '') => `GET /${path} HTTP/1.1\r\nHost: bus\r\n${more}\r\n`;
const post = (path: string | number, body: string) =>
  `POST /${path} HTTP/1.1\r\nHost: bus\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (path: number, chunks: number) =>
  `POST /${path} HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(chunks)}0\r\n\r\n`;
const UPGRADE = 'Connection: upgrade\r\nUpgrade: h2c\r\n';

/** Answers in a later turn of the event loop, when the end of the connection has arrived too. */
async function slowly(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = textOf(await readBytes(request));
  const end = request.socket.readableEnded ? undefined : once(request.socket, 'end');
  // A connection with more than four requests is not read to its end until the first of them are answered.
  await Promise.race([end, nextTurn().then(() => nextTurn())]);
  response.end(`<${request.url}:${body.length}>`);
}

async function serve(t: TestContext, answer: Answer, limits: Partial<ServerLimits> = {}): Promise<number> {
  const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'key' });
  const server = new HttpServer((request, response) => void answer(request, response), {
    ...config,
    ...limits,
  });
  t.after(() => server.close(0));
  return server.listen(0);
}

async function sendAndEnd(t: TestContext, port: number, bytes: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.end(bytes, 'latin1');
  return socket;
}

/** Resolves with all that the server sent until it closed the connection too. */
async function readAll(socket: Socket): Promise<string> {
  let text = '';
  for await (const chunk of socket.setEncoding('latin1')) text += chunk;
  return text;
}

describe('a client that ends its side of the connection behind its requests', () => {
  const names = (count: number) => Array.from({ length: count }, (_, n) => n);

  for (const [what, bytes, expected] of [
    ['one request', get('a'), ['</a:0>']],
    ['a body', post('a', 'hello'), ['</a:5>']],
    [
      'four requests',
      names(4)
        .map((n) => get(n))
        .join(''),
      names(4).map((n) => `</${n}:0>`),
    ],
    [
      'many requests',
      names(300)
        .map((n) => get(n))
        .join(''),
      names(300).map((n) => `</${n}:0>`),
    ],
    [
      'many long bodies',
      names(30)
        .map((n) => post(n, 'x'.repeat(9000)))
        .join(''),
      names(30).map((n) => `</${n}:9000>`),
    ],
    [
      'many tiny chunks',
      names(30)
        .map((n) => chunked(n, 1500))
        .join(''),
      names(30).map((n) => `</${n}:1500>`),
    ],
    [
      'many Upgrade headers',
      names(50)
        .map((n) => get(n) + get('u', UPGRADE))
        .join(''),
      names(50).flatMap((n) => [`</${n}:0>`, '</u:0>']),
    ],
    ['an Upgrade header', get('a') + get('b', UPGRADE) + get('c'), ['</a:0>', '</b:0>', '</c:0>']],
  ] as const) {
    test(`gets all answers, then the connection is closed: ${what}`, async (t) => {
      const port = await serve(t, slowly);
      // After many requests at once, the server reads further connections in slices.
      for (const before of [
        '',
        names(9)
          .map((n) => get(n))
          .join(''),
      ]) {
        await readAll(await sendAndEnd(t, port, before));
        const text = await readAll(await sendAndEnd(t, port, bytes));
        assert.deepEqual(text.match(/<.*?>/g), expected);
      }
    });
  }

  test('gets its answers, then a refusal of the request that is incomplete', async (t) => {
    const port = await serve(t, (request, response) => slowly(request, response).catch(() => {}));
    const text = await readAll(await sendAndEnd(t, port, get('a') + post('b', 'hello').slice(0, -1)));
    assert.match(text, /<\/a:0>.*"detail":"the connection was closed before the whole request had come"/s);
  });

  for (const [what, isWhole] of [
    ['answered', true],
    ['being answered', false],
  ] as const) {
    test(`gets no second answer to a request that is incomplete and ${what}`, async (t) => {
      const port = await serve(t, ({ socket }, response) => {
        response.writeHead(401, { 'Content-Length': 4 }).write('<1');
        if (isWhole) response.end('1>');
        else socket.once('end', () => void nextTurn().then(() => response.end('1>')));
      });
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      t.after(() => socket.destroy());
      socket.write(post('a', 'hello').slice(0, -1), 'latin1');
      await once(socket, 'readable');
      socket.end();
      assert.match(await readAll(socket), /^HTTP\/1.1 401 [^<]*<11>$/);
    });
  }

  test('is cut off after the silence timeout if it does not read, or gets no answer', async (t) => {
    const closed: string[] = [];
    const answer: Answer = ({ url = '', socket }, response) => {
      socket.on('close', () => closed.push(url));
      if (url === '/long') response.end(Buffer.alloc(64 * 1024 * 1024));
    };
    const port = await serve(t, answer, { silenceTimeoutMs: 200 });
    for (const url of ['long', 'silent']) (await sendAndEnd(t, port, get(url))).pause();
    await until(() => closed.length === 2);
    assert.deepEqual(closed.toSorted(), ['/long', '/silent']);
  });

  test('does not keep a server open that closes', async (t) => {
    const begun: string[] = [];
    const server = new HttpServer(({ url = '' }) => void begun.push(url), {
      ...readConfig({ ROUTEMASTER_ROOT_KEY: 'key' }),
    });
    await sendAndEnd(t, await server.listen(0), get('silent'));
    await until(() => begun.length === 1);
    await server.close(50);
  });
});
