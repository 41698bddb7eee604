import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import express from 'express';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { listenLocally } from '../../harness/processes/ports.ts';

export type FloorCalls = { listen: typeof listen };

/** The floor of a publish: a server that reads the body, parses it, and answers 204. */
function take(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const text = (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString();
    if (request.headers['content-type'] === 'application/x-ndjson')
      for (const line of text.split('\n')) JSON.parse(line);
    else JSON.parse(text);
    response.writeHead(204).end();
  });
}

/** Returns an Express application that has `take` as its only route. */
function onExpress(): RequestListener {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.post('/topics/:name', take);
  return app;
}

/** Listens on a free port. Resolves with the port. */
async function listen(platform: 'node:http' | 'Express'): Promise<number> {
  return listenLocally(createServer(platform === 'Express' ? onExpress() : take));
}

serveCalls({ listen } satisfies FloorCalls);
