import { Worker } from 'node:worker_threads';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { type LoadAnswer, LoadConnection, refusalOf } from '../../harness/measuring/load_connection.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { nowMicros, stampedAt } from '../stamp.ts';
import { authorizer, type LoadCredentials } from './authorization.ts';
import type { Beat } from './metronome.ts';

export interface LoadPlan {
  port: number;
  path: string;
  /** If given, request n goes to `path` followed by n modulo `paths`. Not for Digest, whose header is for one path. */
  paths?: number;
  connections: number;
  requests: number;
  body: string;
  contentType?: string;
  credentials: LoadCredentials;
  /**
   * Sends at this rate, and stamps each body with the time that it is due; without it, sends as fast as answers come.
   */
  perSecond?: number;
}

export interface LoadResult {
  seconds: number;
  /** Time from a request, or from when it was due, to its answer. */
  p50Ms: number;
  p99Ms: number;
}

export type LoadCalls = { run: typeof run };

interface Client {
  /** Sends the next request. A Digest client whose challenge is stale answers the new one. */
  send: (answered: (answer: LoadAnswer) => void, dueUs?: number) => void;
  close: () => void;
}

/** Sends the requests over connections of its own. Throws if an answer is not 2xx. */
async function run(plan: LoadPlan): Promise<LoadResult> {
  let count = 0;
  const path = plan.paths ? () => `${plan.path}${count++ % (plan.paths ?? 1)}` : () => plan.path;
  const clients = await Promise.all(Array.from({ length: plan.connections }, () => open(plan, path)));
  const load = plan.perSecond === undefined ? new ClosedLoop(plan.requests) : new OpenLoop(plan);
  const startedMs = performance.now();
  try {
    await load.run(clients);
  } finally {
    for (const client of clients) client.close();
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const latenciesMs = load.latenciesMs;
  return { seconds, p50Ms: percentile(latenciesMs, 0.5), p99Ms: percentile(latenciesMs, 0.99) };
}

async function open(plan: LoadPlan, path: () => string): Promise<Client> {
  const { port, body, contentType = 'application/json', credentials } = plan;
  const { next, renew } = await authorizer(credentials, port, plan.path);
  const lines = `HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: ${contentType}\r\n`;
  const request = (dueUs?: number) => {
    const text = dueUs === undefined ? body : stampedAt(body, dueUs);
    return `POST ${path()} ${lines}Content-Length: ${text.length}\r\nAuthorization: ${next()}\r\n\r\n${text}`;
  };
  const connection = await LoadConnection.open(port);
  const send: Client['send'] = (answered, dueUs) =>
    connection.send(request(dueUs), (answer) => {
      if (answer.status === 401 && renew(answer.text)) send(answered, dueUs);
      else answered(answer);
    });
  return { send, close: () => connection.close() };
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
      for (const client of clients) {
        let sentMs = 0;
        const send = () => {
          if (this.#sent === this.latenciesMs.length) return;
          this.#sent++;
          sentMs = performance.now();
          client.send(answered);
        };
        const answered = (answer: LoadAnswer) => {
          const refusal = refusalOf(answer);
          if (refusal) return reject(refusal);
          this.latenciesMs[this.#answered++] = performance.now() - sentMs;
          if (this.#answered === this.latenciesMs.length) resolve();
          else send();
        };
        send();
      }
    });
  }
}

/**
 * Requests are due at a fixed rate, whether or not earlier ones are answered. A request without a free connection
 * waits, and its time counts from when it was due; otherwise a server that stalls would get fewer requests and look
 * better than it is.
 */
class OpenLoop {
  readonly latenciesMs: Float64Array;
  readonly #everyUs: number;
  readonly #dueUs: number[] = [];

  constructor({ requests, perSecond = 1 }: LoadPlan) {
    this.latenciesMs = new Float64Array(requests);
    this.#everyUs = 1e6 / perSecond;
  }

  async run(clients: Client[]): Promise<void> {
    const free = [...clients];
    const { promise: done, resolve, reject } = Promise.withResolvers<void>();
    let answered = 0;
    const sendDue = () => {
      while (this.#dueUs.length > 0 && free.length > 0) {
        const [client, dueUs] = [free.pop() as Client, this.#dueUs.shift() as number];
        client.send((answer) => {
          const refusal = refusalOf(answer);
          if (refusal) return reject(refusal);
          this.latenciesMs[answered++] = (nowMicros() - dueUs) / 1000;
          free.push(client);
          if (answered === this.latenciesMs.length) resolve();
          else sendDue();
        }, dueUs);
      }
    };
    const beat: Beat = { everyUs: this.#everyUs, beats: this.latenciesMs.length };
    const metronome = new Worker(new URL('./metronome.ts', import.meta.url), { workerData: beat });
    metronome.on('message', (dueUs: number) => {
      this.#dueUs.push(dueUs);
      sendDue();
    });
    metronome.on('error', reject);
    await done.finally(() => metronome.terminate());
  }
}

serveCalls({ run } satisfies LoadCalls);
