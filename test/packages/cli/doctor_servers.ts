import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
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

/** Passes a request on to the bus, and its answer back, with `more` at its end. */
export async function passOn(
  { url = '', headers: { authorization = '' } }: Pick<IncomingMessage, 'url' | 'headers'>,
  response: ServerResponse,
  more = '',
): Promise<void> {
  const answered = await fetch(bus.url + url, { headers: { authorization } });
  response.writeHead(answered.status, { 'content-type': answered.headers.get('content-type') ?? '' });
  response.end((await answered.text()) + more);
}

/** Passes requests on to the bus. Answers 503 to those of `refused`, and adds a line to the metrics. */
export const inTrouble = (t: TestContext, metric: string, refused = /^$/) =>
  serving(t, async (request, response) => {
    const { url = '' } = request;
    if (refused.test(url)) {
      response.writeHead(503, { 'content-type': 'application/problem+json' });
      return void response.end(JSON.stringify({ code: 'storage_unavailable', detail: 'it is away' }));
    }
    await passOn(request, response, url === '/metrics' ? `routemaster_${metric}\n` : '');
  });
