import { serveCalls } from '../helper.ts';
import { stamped } from '../stamp.ts';
import { percentile } from '../statistics.ts';
import { authorizer, type LoadCredentials } from './authorization.ts';
import { LoadConnection } from './load_connection.ts';

export interface LoadPlan {
  port: number;
  path: string;
  connections: number;
  requests: number;
  body: string;
  credentials: LoadCredentials;
  /** At this rate, with a stamp in every body that holds one; without, as fast as answers come. */
  perSecond?: number;
}

export interface LoadResult {
  seconds: number;
  /** From the sending of a request to its answer. */
  p50Ms: number;
  p99Ms: number;
}

export type LoadCalls = { run: typeof run };

interface Client {
  connection: LoadConnection;
  /** The next request, as it goes over the wire. */
  request: () => string;
}

/** Makes the requests over connections of its own. Throws if one is answered with anything but 2xx. */
async function run(plan: LoadPlan): Promise<LoadResult> {
  const clients = await Promise.all(Array.from({ length: plan.connections }, () => open(plan)));
  const load = plan.perSecond === undefined ? new ClosedLoop(plan.requests) : new Paced(plan);
  const startedMs = performance.now();
  try {
    await load.run(clients);
  } finally {
    for (const { connection } of clients) connection.close();
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const latenciesMs = load.latenciesMs;
  return { seconds, p50Ms: percentile(latenciesMs, 0.5), p99Ms: percentile(latenciesMs, 0.99) };
}

async function open({ port, path, body, credentials, perSecond }: LoadPlan): Promise<Client> {
  const next = await authorizer(credentials, port, path);
  const lines = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n`;
  const fill = perSecond === undefined ? () => body : () => stamped(body);
  const request = () => {
    const text = fill();
    return `${lines}Content-Length: ${text.length}\r\nAuthorization: ${next()}\r\n\r\n${text}`;
  };
  return { connection: await LoadConnection.open(port), request };
}

/** Each connection sends its next request when it has the answer to the last. */
class ClosedLoop {
  readonly latenciesMs: Float64Array;
  #sent = 0;
  #answered = 0;

  constructor(requests: number) {
    this.latenciesMs = new Float64Array(requests);
  }

  run(clients: Client[]): Promise<void> {
    return new Promise((resolve, reject) => {
      for (const { connection, request } of clients) {
        let sentMs = 0;
        const send = () => {
          if (this.#sent === this.latenciesMs.length) return;
          this.#sent++;
          sentMs = performance.now();
          connection.send(request());
        };
        connection.on(() => {
          this.latenciesMs[this.#answered++] = performance.now() - sentMs;
          if (this.#answered === this.latenciesMs.length) resolve();
          else send();
        }, reject);
        send();
      }
    });
  }
}

/** A request every so often, over whatever connection is free; the stamp is set as it is sent. */
class Paced {
  readonly latenciesMs: Float64Array;
  readonly #everyMs: number;

  constructor({ requests, perSecond = 1 }: LoadPlan) {
    this.latenciesMs = new Float64Array(requests);
    this.#everyMs = 1000 / perSecond;
  }

  async run(clients: Client[]): Promise<void> {
    const free = [...clients];
    const { promise: done, resolve, reject } = Promise.withResolvers<void>();
    let [sent, answered] = [0, 0];
    const send = () => {
      const client = free.pop();
      if (!client) return;
      sent++;
      const sentMs = performance.now();
      client.connection.on(() => {
        this.latenciesMs[answered++] = performance.now() - sentMs;
        free.push(client);
        if (answered === this.latenciesMs.length) resolve();
      }, reject);
      client.connection.send(client.request());
      if (sent === this.latenciesMs.length) clearInterval(timer);
    };
    const timer = setInterval(send, this.#everyMs);
    await done.finally(() => clearInterval(timer));
  }
}

serveCalls({ run } satisfies LoadCalls);
