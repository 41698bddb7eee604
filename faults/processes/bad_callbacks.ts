import { createServer, type Server, type ServerResponse } from 'node:http';
import { answer } from '../../harness/http/receiver.ts';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { listenLocally } from '../../harness/processes/ports.ts';

/** Ways in which a subscriber can misbehave; callbacks take them in turn. */
const BAD = {
  hangs: answer.hang,
  drips: drip,
  resets: answer.reset,
  fails: answer.status(500),
} satisfies Record<string, (response: ServerResponse) => void>;

type Kind = keyof typeof BAD;
const KINDS = Object.keys(BAD) as Kind[];

export type BadCalls = { listen: typeof listen; requests: typeof requests; hangUp: typeof hangUp };

const servers: Server[] = [];
const counts = new Map<Kind, number>();

/** Each callback has a port of its own, because the bus keeps connections by origin. */
async function listen(count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => serve(KINDS[index % KINDS.length] as Kind)));
}

async function serve(kind: Kind): Promise<string> {
  const server = createServer((request, response) => {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    request.resume();
    request.on('error', () => {}); // the worker gave up
    BAD[kind](response);
  });
  servers.push(server);
  return `http://127.0.0.1:${await listenLocally(server)}/${kind}`;
}

/** Requests so far, by kind. */
function requests(): Map<Kind, number> {
  return counts;
}

/** Ends all connections. */
function hangUp(): void {
  for (const server of servers) server.closeAllConnections();
}

/** Interval at which `drip` sends a byte: the status line takes 4 s, the head 10 s, and the body never ends. */
const DRIP_MS = 250;
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n';

function drip({ socket }: ServerResponse): void {
  let sent = 0;
  const timer = setInterval(() => socket?.write(HEAD[sent++] ?? ' '), DRIP_MS);
  socket?.once('close', () => clearInterval(timer));
  socket?.on('error', () => {}); // the worker gave up
}

serveCalls({ listen, requests, hangUp } satisfies BadCalls);
