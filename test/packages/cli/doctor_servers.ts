import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { TestContext } from 'node:test';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { bus } from './shared_bus.ts';

/** Starts a server that answers as no bus should. Resolves with its port. */
export async function serving(
  t: TestContext,
  listener: RequestListener,
  tls?: { key: string; cert: string },
) {
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return listenLocally(server);
}

/** Passes requests on to the bus. Answers 503 to those of `refused`, and adds a line to the metrics. */
export const inTrouble = (t: TestContext, metric: string, refused = /^$/) =>
  serving(t, async ({ url = '', headers: { authorization = '' } }, response) => {
    if (refused.test(url)) {
      response.writeHead(503, { 'content-type': 'application/problem+json' });
      return void response.end(JSON.stringify({ code: 'storage_unavailable', detail: 'it is away' }));
    }
    const answered = await fetch(bus.url + url, { headers: { authorization } });
    response.writeHead(answered.status, { 'content-type': answered.headers.get('content-type') ?? '' });
    response.end((await answered.text()) + (url === '/metrics' ? `routemaster_${metric}\n` : ''));
  });
