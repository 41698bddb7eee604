import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { until } from '../../../harness/until.ts';
import { readConfig } from '../../../src/config.ts';
import { readBytes, textOf } from '../../../src/http/body.ts';
import { HttpServer } from '../../../src/http/server.ts';
import { WorkBudget } from '../../../src/http/work_budget.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

const get = (path: string | number) => `GET /${path} HTTP/1.1\r\nHost: bus\r\n\r\n`;
const post = (path: string | number, body: string) =>
  `POST /${path} HTTP/1.1\r\nHost: bus\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const statuses = (text: string) => text.match(/HTTP\/1\.1 \d+/g) ?? [];

async function serve(t: TestContext, answer: Answer, budget = new WorkBudget()): Promise<number> {
  const server = new HttpServer(
    (request, response) => void answer(request, response),
    readConfig({ ROUTEMASTER_ROOT_KEY: 'key' }),
    budget,
  );
  t.after(() => server.close(0));
  return server.listen(0);
}

async function open(t: TestContext, port: number): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  let text = '';
  socket.setEncoding('latin1').on('data', (more) => {
    text += more;
  });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return { socket, text: () => text };
}

test('a few requests of a connection are handled at a time, and the rest is not read until they are answered', async (t) => {
  const waiting: ServerResponse[] = [];
  let seen = 0;
  const port = await serve(t, (_request, response) => {
    seen++;
    waiting.push(response);
  });
  const { socket, text } = await open(t, port);
  const requests = 20_000;
  socket.write(get('health').repeat(requests));
  await until(() => waiting.length > 0);
  // The system buffers a part of the 700 KB. The rest would be written too if the server read it.
  for (let turns = 0; turns < 100; turns++) await nextTurn();
  assert.equal(seen, 4);
  let max = 0;
  while (seen < 400) {
    max = Math.max(max, waiting.length);
    for (const response of waiting.splice(0)) response.end('ok');
    await until(() => waiting.length > 0);
  }
  assert.ok(max <= 4, `${max} at a time`);
  assert.ok(statuses(text()).length <= seen);
});

test('requests sent at once are answered in order, however they are cut, with their bodies', async (t) => {
  const seen: string[] = [];
  const port = await serve(t, async (request, response) => {
    const body = textOf(await readBytes(request));
    if (request.url?.endsWith('0')) await nextTurn();
    seen.push(`${request.url}:${body.length}`);
    response.end(`<${request.url}:${body.length}>`);
  });
  const sizes = [0, 1, 3, 500, 4095, 4096, 4097, 9000, 70_000];
  const requests = Array.from({ length: 200 }, (_, n) => {
    const size = sizes[n % sizes.length] ?? 0;
    return size === 0 ? get(n) : post(n, 'x'.repeat(size));
  });
  const expected = requests.map((_, n) => `/${n}:${sizes[n % sizes.length]}`);
  const bytes = requests.join('');
  for (const cut of [bytes.length, 100_000, 4096, 1777]) {
    seen.length = 0;
    const { socket, text } = await open(t, port);
    for (let at = 0; at < bytes.length; at += cut) {
      socket.write(bytes.slice(at, at + cut));
      if (cut < 100_000) await nextTurn();
    }
    await until(() => text().includes(`<${expected.at(-1)}>`));
    assert.deepEqual(seen.toSorted(), expected.toSorted());
    assert.deepEqual(
      text().match(/<.*?>/g),
      expected.map((each) => `<${each}>`),
    );
    socket.destroy();
  }
});

test('once one connection has sent many requests at once, no other is read whole, nor in the middle of a body', async (t) => {
  const parsed = new Map<number | undefined, number>();
  const count = (message: unknown) => {
    const port = (message as { socket: Socket }).socket.remotePort;
    parsed.set(port, (parsed.get(port) ?? 0) + 1);
  };
  subscribe('http.server.request.start', count);
  t.after(() => unsubscribe('http.server.request.start', count));
  const waiting: (() => void)[] = [];
  const port = await serve(t, async (request, response) => {
    const { length } = textOf(await readBytes(request));
    const answer = () => response.end(`<${request.url}:${length}>`);
    if (request.url === '/body') answer();
    else waiting.push(answer);
  });
  const [first, idle, body] = [await open(t, port), await open(t, port), await open(t, port)];
  const parsedOf = ({ socket }: { socket: Socket }) => parsed.get(socket.localPort) ?? 0;
  const large = post('body', 'x'.repeat(100_000));
  body.socket.write(large.slice(0, 50_000));
  await until(() => parsedOf(body) === 1);

  const burst = get('health').repeat(2000);
  first.socket.write(burst);
  await until(() => waiting.length === 4);
  assert.ok(parsedOf(first) > 1000, 'the first burst was read whole');
  body.socket.write(large.slice(50_000) + large);
  await until(() => body.text().match(/<\/body:100000>/g)?.length === 2);
  for (const other of [idle, await open(t, port)]) {
    const { length } = waiting;
    other.socket.write(burst);
    await until(() => waiting.length === length + 4);
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    assert.ok(parsedOf(other) < 200, `${parsedOf(other)} requests were parsed at once`);
  }
});

test('a body that nobody reads yet is read to its end later, even if slices began meanwhile', async (t) => {
  const body = 'x'.repeat(300_000);
  let read = () => {};
  const mayRead = new Promise<void>((resolve) => {
    read = resolve;
  });
  const port = await serve(t, async (request, response) => {
    if (request.method === 'POST') await mayRead;
    response.end(`<${textOf(await readBytes(request, body.length)).length}>`);
  });
  const [first, chunked, other] = [await open(t, port), await open(t, port), await open(t, port)];
  first.socket.write(post('', body));
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  chunked.socket.write(`POST / HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`);
  for (let turns = 0; turns < 100; turns++) await nextTurn();
  other.socket.write(get('many').repeat(50));
  await until(() => statuses(other.text()).length === 50);
  read();
  await until(() => first.text().includes(`<${body.length}>`), { timeoutMs: 5000 });
  await until(() => chunked.text().includes(`<${body.length}>`), { timeoutMs: 5000 });
});

test('what follows requests that wait is served in its turn: an Upgrade header, garbage', async (t) => {
  const port = await serve(t, async (request, response) => {
    await readBytes(request);
    setImmediate(() => response.end(`<${request.url}>`));
  });
  const some = (from: number) => Array.from({ length: 30 }, (_, n) => get(from + n)).join('');
  const upgrade = 'GET /up HTTP/1.1\r\nHost: bus\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n';
  const { socket, text } = await open(t, port);
  socket.write(`${some(100)}${upgrade}${some(200)}\0garbage\r\n\r\n`);
  await once(socket, 'close');
  const paths = [...some(100).matchAll(/\/\d+(?= )/g), ['/up'], ...some(200).matchAll(/\/\d+(?= )/g)].map(
    ([path]) => `<${path}>`,
  );
  assert.deepEqual(text().match(/<.*?>/g), paths);
  assert.match(statuses(text()).at(-1) ?? '', /400/);
});

test('what follows an Upgrade header is served if the requests before it waited for a body to be read', async (t) => {
  const waiting: (() => void)[] = [];
  const port = await serve(t, async (request, response) => {
    if (request.method === 'POST') await new Promise<void>((resolve) => waiting.push(resolve));
    await readBytes(request);
    setImmediate(() => response.end(`<${request.url}>`));
  });
  const { socket, text } = await open(t, port);
  socket.write('POST /body HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n');
  await until(() => waiting.length === 1);
  const upgrade = 'GET /up HTTP/1.1\r\nHost: bus\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n';
  const size = 80_000;
  const body = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n0\r\n\r\n`;
  socket.write(`${body}${[1, 2, 3, 4, 5].map(get).join('')}${upgrade}${get(6)}`);
  for (let turns = 0; turns < 100; turns++) await nextTurn();
  waiting[0]?.();
  await until(() => text().includes('</6>'), { timeoutMs: 5000 });
  const paths = ['/body', '/1', '/2', '/3', '/4', '/5', '/up', '/6'];
  assert.deepEqual(
    text().match(/<.*?>/g),
    paths.map((path) => `<${path}>`),
  );
});

describe('more bytes than fit into a slice, after an Upgrade header,', () => {
  const upgrade = 'GET /up HTTP/1.1\r\nHost: bus\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n';
  const paths = Array.from({ length: 300 }, (_, n) => n);
  const behind = paths.map(get).join('');

  /** Starts a server that reads new connections in slices, and that answers `/slow` when `answerSlow` is called. */
  async function serveInSlices(t: TestContext) {
    const slow: (() => void)[] = [];
    const port = await serve(t, ({ url }, response) => {
      const answer = () => response.end(`<${url}>`);
      if (url === '/slow') slow.push(answer);
      else answer();
    });
    const { socket, text } = await open(t, port);
    socket.write(get('burst').repeat(9));
    await until(() => statuses(text()).length === 9);
    const answerSlow = () => {
      for (const answer of slow.splice(0)) answer();
    };
    return { port, answerSlow, slow };
  }

  test('are parsed once, and in order', async (t) => {
    const { port } = await serveInSlices(t);
    const { socket, text } = await open(t, port);
    socket.write(upgrade + behind);
    await until(() => text().includes('</299>') || text().includes('400'));
    assert.deepEqual(
      text().match(/<.*?>/g),
      ['up', ...paths].map((path) => `</${path}>`),
    );
  });

  test('become no request of a connection that gets the parser', async (t) => {
    const { port, slow, answerSlow } = await serveInSlices(t);
    const { socket, text } = await open(t, port);
    socket.write(get('slow').repeat(6) + upgrade + behind);
    await until(() => slow.length === 4);
    const others = await Promise.all([1, 2, 3].map(() => open(t, port)));
    for (const { socket } of others) socket.write('GET /own HTTP/1.1\r\nHost: bus\r\n');
    await until(() => {
      answerSlow();
      return text().includes('</299>') || others.some((other) => other.text() !== '');
    });
    for (const { socket } of others) socket.write('\r\n');
    for (const other of others) {
      await until(() => statuses(other.text()).length > 0);
      assert.deepEqual(other.text().match(/<.*?>/g), ['</own>']);
    }
  });
});

test('what follows an Upgrade header is served if earlier answers were too long to go on reading', async (t) => {
  const held = new Map<string | undefined, () => void>();
  let seen = 0;
  const port = await serve(t, async ({ url }, response) => {
    seen++;
    if (url === '/first' || url === '/third') await new Promise<void>((resolve) => held.set(url, resolve));
    response.end(`<${url}>${'.'.repeat(url === '/long' ? 200_000 : 0)}`);
  });
  const { socket, text } = await open(t, port);
  socket.write(get('first') + get('long'));
  await until(() => seen === 2);
  const upgrade = 'GET /up HTTP/1.1\r\nHost: bus\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n';
  socket.write(get('third') + upgrade + get('after'));
  await until(() => seen === 3);
  held.get('/first')?.();
  await until(() => text().endsWith('.'.repeat(200_000)));
  held.get('/third')?.();
  await until(() => text().includes('</after>'), { timeoutMs: 5000 });
  assert.deepEqual(text().match(/<.*?>/g), ['</first>', '</long>', '</third>', '</up>', '</after>']);
});

test('a body that cannot be parsed is refused after the answers to the requests before it', async (t) => {
  const port = await serve(t, async (request, response) => {
    await readBytes(request).catch(() => {});
    setImmediate(() => response.end(`<${request.url}>`));
  });
  const { socket, text } = await open(t, port);
  const head = 'POST /bad HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n';
  socket.write(`${get(1)}${get(2)}${head}5\r\nhello\r\nno length\r\n`);
  await once(socket, 'close');
  assert.deepEqual(text().match(/<.*?>/g), ['</1>', '</2>']);
  assert.deepEqual(statuses(text()), ['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 400']);
});

test('requests of a caller that does not read its answers wait until it does', async (t) => {
  let seen = 0;
  const port = await serve(t, (request, response) => {
    seen++;
    response.end(request.url === '/long' ? Buffer.alloc(20_000_000) : Buffer.alloc(100_000));
  });
  const [first, slow] = [await open(t, port), await open(t, port)];
  first.socket.write(get('first').repeat(10));
  await until(() => statuses(first.text()).length === 10);
  slow.socket.pause();
  for (const [index, path] of ['long', 'next'].entries()) {
    slow.socket.write(get(path));
    await until(() => seen === 11 + index);
  }
  // More than one slice. Node's server throws if it gets another slice while it waits for the caller to read.
  slow.socket.write(get('x'.repeat(3000)).repeat(10));
  await until(() => seen === 13);
  for (let turns = 0; turns < 100; turns++) await nextTurn();
  assert.equal(seen, 13);
  slow.socket.resume();
  await until(() => statuses(slow.text()).length === 12);
  assert.equal(seen, 22);
});

test('what a closed connection has sent never becomes a request of another one', async (t) => {
  const seen: string[] = [];
  const waiting: ServerResponse[] = [];
  const port = await serve(t, (request, response) => {
    seen.push(`${request.method} ${request.url}`);
    if (request.url === '/slow') waiting.push(response);
    else response.end();
  });
  const first = await open(t, port);
  first.socket.write(get('first').repeat(10));
  await until(() => statuses(first.text()).length === 10);
  const rest = `${get('x'.repeat(5000))}DELETE /subscriber HTTP/1.1\r\nX-Ignored: `;
  for (let round = 0; round < 5; round++) {
    const { socket } = await open(t, port);
    waiting.length = 0;
    socket.write(get('slow').repeat(5) + rest);
    await until(() => waiting.length === 4);
    seen.length = 0;
    socket.resetAndDestroy();
    const others = await Promise.all(Array.from({ length: 8 }, () => open(t, port)));
    for (const other of others) other.socket.write(post('victim', ''));
    await until(() => others.every(({ text }) => statuses(text()).length > 0));
    const foreign = seen.filter((each) => each !== 'POST /victim' && each !== 'GET /slow');
    assert.deepEqual(foreign, []);
    for (const other of others) other.socket.destroy();
  }
});

test('bodies in tiny chunks are parsed a few chunks at a time, on all connections together', async (t) => {
  let inTurn = 0;
  const turns: number[] = [];
  const watch = () => {
    turns.push(inTurn);
    inTurn = 0;
    next = setImmediate(watch);
  };
  let next = setImmediate(watch);
  t.after(() => clearImmediate(next));
  const port = await serve(t, async (request, response) => {
    request.on('data', () => inTurn++);
    const chunks = await readBytes(request);
    response.end(`<${textOf(chunks)}:${chunks.length}>`);
  });
  const bytes = Array.from({ length: 30_000 }, (_, n) => String(n % 10));
  const body = bytes.map((each) => `1\r\n${each}\r\n`).join('');
  const request = `POST / HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`;
  const connections = await Promise.all(Array.from({ length: 4 }, () => open(t, port)));
  const short = 'POST / HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n-\r\n0\r\n\r\n';
  for (const { socket } of connections) socket.write(short + request.repeat(2));
  for (const { text } of connections) {
    await until(() => text().match(/>/g)?.length === 3, { timeoutMs: 20_000 });
    const [, read, count] = /<(\d+):(\d+)>/.exec(text()) ?? [];
    assert.equal(read, bytes.join(''));
    assert.ok(Number(count) < 20, `the body is kept in ${count} chunks`);
  }
  // The first read of the first connection is parsed whole. It has 64 KiB, which are up to 11,000 chunks.
  const long = turns.filter((chunks) => chunks > 8000);
  assert.ok(long.length <= 1, `${long} chunks were parsed in a turn`);
});

test('a body in larger chunks does not wait with those in tiny chunks, however long its parsing takes', async (t) => {
  const budget = new WorkBudget();
  const asked: string[] = [];
  const { whenFree } = budget;
  budget.whenFree = (owner = '') => {
    asked.push(owner);
    return whenFree.call(budget, owner);
  };
  const work = () => {
    for (const untilMs = performance.now() + 2; performance.now() < untilMs; );
  };
  const handle: Answer = async (request, response) => {
    work();
    request.on('data', (chunk) => chunk.length > 1 && work());
    response.end(`<${textOf(await readBytes(request)).length}>`);
  };
  const port = await serve(t, handle, budget);
  const { socket, text } = await open(t, port);
  const send = async (chunks: readonly string[], answers: number) => {
    socket.write('POST / HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (const chunk of chunks) socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
    socket.write('0\r\n\r\n');
    await until(() => statuses(text()).length === answers);
  };
  await send(Array(30).fill('x'.repeat(1000)), 1);
  assert.deepEqual(asked, []);
  await send(Array(3000).fill('x'), 2);
  assert.ok(asked.length > 0);
});

test('a body in tiny chunks that nobody reads is not taken, and goes on when somebody does', async (t) => {
  let request: IncomingMessage | undefined;
  const { promise: reading, resolve: read } = Promise.withResolvers<void>();
  const port = await serve(t, async (its, response) => {
    request = its;
    await reading;
    response.end(`<${textOf(await readBytes(its, 500_000)).length}>`);
  });
  const { socket, text } = await open(t, port);
  socket.write('POST / HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n');
  const body = '1\r\n \r\n'.repeat(500_000);
  socket.write(`${body}0\r\n\r\n`);
  await until(() => (request?.readableLength ?? 0) > 60_000);
  for (let turns = 0; turns < 200; turns++) await nextTurn();
  assert.ok((request?.readableLength ?? 0) < 200_000, `${request?.readableLength} bytes are kept`);
  read();
  await until(() => text().endsWith('<500000>'));
});

test('a connection that floods keeps nobody waiting, and is served again when it stops', async (t) => {
  const port = await serve(t, (_request, response) => response.end('ok'));
  const flood = await open(t, port);
  const count = 30_000;
  flood.socket.write(get('health').repeat(count));
  const victim = await open(t, port);
  for (let asked = 1; asked <= 20; asked++) {
    victim.socket.write(get('health'));
    await until(() => statuses(victim.text()).length === asked, { everyMs: 1 });
    assert.ok(statuses(flood.text()).length < count, 'the flood is still under way');
  }
  await until(() => statuses(flood.text()).length === count, { timeoutMs: 60_000 });
  flood.socket.write(get('again'));
  await until(() => statuses(flood.text()).length === count + 1);
});
