import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type RequestListener,
} from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import express from 'express';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { createReceiver, type Delivery } from '../../../packages/receiver/src/index.ts';
import { basic, event, listen, post, SECRET } from './posting.ts';

describe('the listeners of a receiver', () => {
  test('refuses bodies that are too large, announced or not, and what is no delivery', async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    const failures: unknown[] = [];
    const onError = (error: unknown, { id }: Delivery) => failures.push(id, String(error));
    const receiver = createReceiver({ uuid: 'me', maxBytes: 100, on: {}, onError });
    const url = await listen(t, receiver.node());
    assert.equal((await post(url, 'x'.repeat(101))).status, 413);
    const body = new ReadableStream({
      start(controller) {
        for (let n = 0; n < 101; n++) controller.enqueue(new TextEncoder().encode('x'));
        controller.close();
      },
    });
    const headers = { authorization: basic('me') };
    const streamed = await fetch(url, { method: 'POST', body, headers, duplex: 'half' } as RequestInit);
    assert.equal(streamed.status, 413);
    const unparsed = /^the body cannot be parsed as JSON; the log of the receiver says more$/m;
    const noEvents = /^the body is JSON, but no array of events$/m;
    for (const [wrong, text, error] of [
      ['', unparsed, /^SyntaxError: /],
      ['nonsense', unparsed, /^SyntaxError: /],
      ['{}', noEvents, /^TypeError: the body is no array of events, each with a topic$/],
      ['[1]', noEvents, /^TypeError: /],
      ['[{"topic":1}]', noEvents, /^TypeError: /],
    ] as const) {
      const refused = await post(url, wrong);
      assert.equal(refused.status, 400, wrong);
      assert.match(await refused.text(), text);
      const [id, failure] = failures.splice(0);
      assert.equal(id, 'batch-1', wrong);
      assert.match(String(failure), error);
    }
    const withoutId = await post(url, [], { 'webhook-id': '' });
    assert.equal(withoutId.status, 400);
    assert.equal(await withoutId.text(), 'the header webhook-id is missing\n');
    assert.equal((await fetch(url)).status, 405);
    const said = warn.mock.calls.map(({ arguments: [text] }) => text);
    assert.deepEqual(said, [
      'refused a delivery (said once a minute at most): the body has more than 100 bytes; see maxBytes',
      'refused a delivery (said once a minute at most): the header webhook-id is missing',
    ]);
  });

  test('keeps a body in tiny chunks without waste, as anybody may send one', async (t) => {
    setFlagsFromString('--expose-gc');
    const collectGarbage: () => void = runInNewContext('gc');
    const receiver = createReceiver({ signingSecret: SECRET, on: {} });
    const arriving: Socket[] = [];
    const url = await listen(t, (request, response) => {
      arriving.push(request.socket);
      return receiver.node()(request, response);
    });
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    t.after(() => socket.destroy());
    const sent = `POST / HTTP/1.1\r\nHost: receiver\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(200_000)}`;
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    socket.write(sent);
    await until(() => arriving[0]?.bytesRead === sent.length);
    collectGarbage();
    const megabytes = (process.memoryUsage().heapUsed - before) / 1e6;
    assert.ok(megabytes < 10, `${megabytes} MB`);
    socket.write('0\r\n\r\n');
    const [answer] = await once(socket, 'data');
    assert.match(String(answer), /^HTTP\/1.1 401 /);
  });

  test('says what is wrong if something has read the body before', async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    const receiver = createReceiver({ uuid: 'me', on: {} });
    const wrong = express().use(express.json()).post('/events', receiver.express());
    const answer = await post(await listen(t, wrong), [event('orders', 1)]);
    assert.equal(answer.status, 500);
    const advice = /put the receiver before what does, such as express\.json\(\)/;
    assert.match(await answer.text(), advice);
    const headers = { authorization: basic('me') };
    const request = new Request('http://me/events', { method: 'POST', headers, body: '[]' });
    await request.text();
    const fetched = await receiver.fetch(request);
    assert.equal(fetched.status, 500);
    assert.match(await fetched.text(), advice);
    const lines = warn.mock.calls.map(({ arguments: [text] }) => text);
    assert.deepEqual(lines, [
      'refused a delivery (said once a minute at most): something else has read the body: ' +
        'put the receiver before what does, such as express.json()',
    ]);
    const raw = express()
      .use(express.raw({ type: '*/*' }))
      .post('/events', receiver.express());
    assert.equal((await post(await listen(t, raw), [event('orders', 1)])).status, 204);
  });

  test('fetch rejects for no body, be it one that ends early or one that something else is reading', async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    const receiver = createReceiver({ uuid: 'me', on: {} });
    const requestOf = (body: ReadableStream) => {
      const headers = { authorization: basic('me') };
      return new Request('http://me/events', {
        method: 'POST',
        headers,
        body,
        duplex: 'half',
      } as RequestInit);
    };
    const failure = new Error('aborted');
    const cut = () => new ReadableStream({ pull: (controller) => controller.error(failure) });
    const answer = await receiver.fetch(requestOf(cut()));
    assert.equal(answer.status, 400);
    const text = 'the body could not be read to its end';
    assert.equal(await answer.text(), `${text}; the log of the receiver says more\n`);
    await receiver.fetch(requestOf(cut()));
    const lines = warn.mock.calls.splice(0).map(({ arguments: given }) => given);
    assert.deepEqual(lines, [[`refused a delivery (said once a minute at most): ${text}`, failure]]);
    warn.mock.resetCalls();
    const read = requestOf(new ReadableStream());
    read.body?.getReader();
    assert.equal((await receiver.fetch(read)).status, 500);
    assert.equal(warn.mock.callCount(), 1);
  });

  test('writes nothing if something else has answered meanwhile, as code that limits the time of requests', async (t) => {
    const finish = Promise.withResolvers<void>();
    const ended: Promise<void>[] = [];
    const listener = createReceiver({ uuid: 'me', on: { orders: () => finish.promise } }).node();
    const url = await listen(t, (request, response) => {
      ended.push(listener(request, response));
      request.once('end', () => response.writeHead(503).end());
    });
    assert.equal((await post(url, [event('orders', 1)])).status, 503);
    finish.resolve();
    assert.deepEqual(await Promise.all(ended), [undefined]);
  });

  test('reads a body that a parser for other types has left alone, as urlencoded() of Express 4', async (t) => {
    const receiver = createReceiver({ uuid: 'me', on: {} });
    const listener = receiver.express();
    const app: RequestListener = (request, response) =>
      listener(Object.assign(request, { body: {} }), response);
    assert.equal((await post(await listen(t, app), [event('orders', 1)])).status, 204);
  });

  test('lets a server end that is closed during a delivery, although the bus keeps its connection', async (t) => {
    const [begun, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const orders = () => {
      begun.resolve();
      return finish.promise;
    };
    const server = createServer(createReceiver({ uuid: 'me', on: { orders } }).node());
    const agent = new Agent({ keepAlive: true });
    t.after(() => agent.destroy());
    const url = `http://127.0.0.1:${await listenLocally(server)}/events`;
    const headers = { authorization: basic('me'), 'webhook-id': 'batch-1' };
    const request = httpRequest(url, { method: 'POST', agent, headers });
    request.end(JSON.stringify([event('orders', 1)]));
    const answered = once(request, 'response') as Promise<[IncomingMessage]>;
    await begun.promise;
    const closed = once(server, 'close');
    server.close();
    finish.resolve();
    const [answer] = await answered;
    answer.resume();
    assert.deepEqual([answer.statusCode, answer.headers.connection], [204, 'close']);
    await closed;
  });

  test('says so if the function that makes a listener is taken for the listener', async (t) => {
    const receiver = createReceiver({ uuid: 'me', on: {} });
    const app = express();
    app.post('/events', receiver.express as RequestListener);
    app.use((error: Error, _request: unknown, response: express.Response, _next: unknown) => {
      response.status(500).send(error.message);
    });
    const answered = await post(await listen(t, app), [event('orders', 1)]);
    assert.equal(await answered.text(), 'write receiver.express(), with its parentheses');
    const mount = receiver.node as unknown as (request: object) => unknown;
    assert.throws(() => mount({}), /^TypeError: write receiver.node\(\), with its parentheses$/);
  });
});
