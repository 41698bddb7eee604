import { createServer, type RequestListener, type Server } from 'node:http';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { createReceiver, MemoryStore } from '../../packages/receiver/src/index.ts';
import { UUID } from '../workload.ts';

/** How batches are received: parsed alone, as one would write it without the package, or by `@routemaster/receiver`. */
export type Receiving = 'by hand' | 'by receiver' | 'by receiver, signed' | 'by receiver, signed, no repeats';

let server: Server | undefined;

/** Starts a receiver in place of the former one. Resolves with its port. */
async function receive(how: Receiving, signingSecret: string): Promise<number> {
  server?.close();
  server?.closeAllConnections();
  server = createServer(listenerOf(how, signingSecret));
  return listenLocally(server);
}

function listenerOf(how: Receiving, signingSecret: string): RequestListener {
  if (how === 'by hand') return byHand;
  return createReceiver({
    uuid: UUID,
    ...(how !== 'by receiver' && { signingSecret }),
    ...(how === 'by receiver, signed, no repeats' && { store: new MemoryStore() }),
    on: { '*': async () => {} },
  }).node();
}

const byHand: RequestListener = async (request, response) => {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  JSON.parse(Buffer.concat(pieces).toString());
  response.writeHead(204).end();
};

export type ReceiverHostCalls = { receive: typeof receive };
serveCalls({ receive } satisfies ReceiverHostCalls);
