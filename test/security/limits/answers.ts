import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { capturedLog } from '../../../harness/captured_log.ts';
import { type Answer, problemIn, send } from '../../../harness/http/api.ts';
import { pipelineParts } from '../../../harness/http/pipeline.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { BROWSER_HEADERS } from '../../../src/http/answers.ts';
import { createApp } from '../../../src/http/app.ts';
import { NO_CONTENT, type Route, route } from '../../../src/routing/route.ts';
import { api } from './default_api.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';

/** Serves routes that need no credentials. Resolves with the port. */
async function serve(t: TestContext, routes: Route[], log = capturedLog().log): Promise<number> {
  const nobody = () => assert.fail('nobody is asked who calls');
  const authentication = { callerOf: nobody, wrongRole: nobody, judgeAgain: nobody };
  const app = createApp(routes, pipelineParts({ authentication, log }));
  const server = createServer(app);
  t.after(() => server.close().closeAllConnections());
  return listenLocally(server);
}

function assertForBrowsers({ headers }: Answer): void {
  for (const [name, value] of Object.entries(BROWSER_HEADERS))
    assert.equal(headers[name.toLowerCase()], value, name);
  assert.equal(headers['x-powered-by'], undefined);
  assert.equal(headers.server, undefined);
}

describe('answers forbid browsers to run or embed them', () => {
  test('on success, with all security headers', async () => {
    for (const path of ['/topics', '/subscriptions', '/api_tokens', '/dead_letters', '/metrics', '/health'])
      assertForBrowsers(await api.call('GET', path, { as: 'root' }));
  });

  test('problem answers, without credentials too, on every path through the server', async () => {
    for (const [method, path] of [
      ['GET', '/topics'],
      ['GET', '/<script>'],
      ['POST', '/topics/widgets'],
      ['POST', '/topics/widgets?'],
      ['POST', '/subscription'],
      ['DELETE', '/topics/widgets'],
    ] as const) {
      const answer = await api.call(method, path);
      problemIn(answer);
      assertForBrowsers(answer);
    }
    assertForBrowsers(await api.raw('hello\r\n\r\n'));
  });

  test('answers to publishes have no such headers, since browsers do not show them', async () => {
    const { status, headers } = await api.call('POST', '/topics/widgets', { as: 'pub', body: EVENT });
    assert.equal(status, 204);
    assert.deepEqual(Object.keys(headers).sort(), ['connection', 'date', 'keep-alive']);
  });
});

test('a body that nobody reads is not kept while the answer is made', async (t) => {
  const underWay: IncomingMessage[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const slow = route('GET /slow', [], {
    answers: { 204: null },
    async handle({ request }) {
      underWay.push(request);
      await promise;
      return NO_CONTENT;
    },
  });
  const port = await serve(t, [slow]);
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  const request = `GET /slow HTTP/1.1\r\nHost: bus\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(100_000)}`;
  socket.write(request);
  await until(() => underWay[0]?.socket.bytesRead === request.length);
  assert.equal(underWay[0]?.readableLength, 0);
  resolve();
  const [answer] = await once(socket, 'data');
  assert.match(String(answer), /^HTTP\/1.1 204 /);
});

test('a thrown error of any kind is answered without its stack trace, which is logged', async (t) => {
  const thrown: unknown[] = [
    new TypeError('the inner thing of /srv/bus.ts'),
    Object.assign(new Error('an inner thing'), { status: 500, expose: true }),
    Object.assign(new Error('an inner thing'), { status: 'x', stack: 'at inner (thing.ts:1:1)' }),
    'an inner thing',
    { inner: 'thing' },
  ];
  const recorded = capturedLog();
  const fails = (path: `/${string}`, fail: (n: number) => Promise<never>) =>
    route(`GET ${path}`, [], { answers: {}, handle: ({ params }) => fail((params as { n: number }).n) });
  const publish = route('POST /topics/:name', [], {
    answers: {},
    handle: async () => {
      throw thrown[0];
    },
  });
  const routes = [
    fails('/throws/:n', (n) => {
      throw thrown[n];
    }),
    fails('/rejects/:n', (n) => Promise.reject(thrown[n])),
    publish,
  ];
  const port = await serve(t, routes, recorded.log);
  const calls = [
    ...thrown.flatMap((_, n) => [`GET /throws/${n}`, `GET /rejects/${n}`]),
    ...['POST /topics/widgets', 'POST /topics/widgets?'],
  ];
  for (const call of calls) {
    const [method = '', path = ''] = call.split(' ');
    const answer = await send(port, method, path, {}, method === 'POST' ? EVENT : undefined);
    assert.equal(problemIn(answer).code, 'internal', call);
    assert.doesNotMatch(answer.text, /inner|\bat |\.ts|node:/);
  }
  assert.match(JSON.stringify(recorded.lines), /the inner thing of .*app\.ts|limits\/answers\.ts/);
});
