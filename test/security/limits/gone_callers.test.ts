import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { z } from 'zod';
import { capturedLog } from '../../../harness/captured_log.ts';
import { send } from '../../../harness/http/api.ts';
import { pipelineParts } from '../../../harness/http/pipeline.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { createApp } from '../../../src/http/app.ts';
import { CallLimits } from '../../../src/http/call_limits.ts';
import { Proxies } from '../../../src/routing/proxies.ts';
import { ALL, ok, route } from '../../../src/routing/route.ts';

async function* pieces() {
  yield 'a piece';
}

const REQUEST = 'GET /slow HTTP/1.1\r\nHost: bus\r\n\r\n';

test('calls whose callers have gone are under way until they end, and are no faults', async (t) => {
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>();
  const slow = route('GET /slow', ALL, {
    answers: { 200: z.string() },
    async handle() {
      await mayEnd;
      return ok(pieces());
    },
  });
  const callerOf = async () => ({ role: 'client', token: 'alpha', name: 'alpha' }) as const;
  const authentication = { callerOf, wrongRole: () => assert.fail(), judgeAgain: callerOf };
  const callLimits = new CallLimits({ callRate: 1000, strangerRate: 0 }, new Proxies(0));
  const { log, lines } = capturedLog();
  const app = createApp([slow], pipelineParts({ authentication, callLimits, log }));
  const server = createServer(app);
  t.after(() => server.close().closeAllConnections());
  const port = await listenLocally(server);
  const refusals: string[] = [];
  const sockets = Array.from({ length: 17 }, () => connect(port, '127.0.0.1'));
  for (const socket of sockets) socket.on('data', (text) => refusals.push(String(text))).write(REQUEST);
  await until(() => refusals.length === 1);
  assert.match(refusals[0] ?? '', /^HTTP\/1.1 429 .*may have 16 calls under way/s);
  for (const socket of sockets) socket.destroy();
  await until(() => new Promise((resolve) => server.getConnections((_, count) => resolve(count === 0))));
  assert.equal((await send(port, 'GET', '/slow', {})).status, 429);
  end();
  await until(async () => (await send(port, 'GET', '/slow', {})).status === 200);
  const logged = lines.map(({ msg, code }) => ({ msg, code }));
  assert.deepEqual(logged, [{ msg: 'refused calls', code: 'rate_limited' }]);
});
