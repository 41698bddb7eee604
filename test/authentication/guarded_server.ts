import { once } from 'node:events';
import { createServer, type RequestListener, request, type Server } from 'node:http';
import { pino } from 'pino';
import { z } from 'zod';
import { aroundTests } from '../../harness/around_tests.ts';
import { type AuthenticationParts, buildAuthentication } from '../../harness/http/authentication.ts';
import { pipelineParts } from '../../harness/http/pipeline.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { createApp } from '../../src/http/app.ts';
import type { Caller, Role } from '../../src/routing/caller.ts';
import { ok, route } from '../../src/routing/route.ts';

export const ROOT_KEY = 'the-root-key-of-this-test';
/** A token of ROUTEMASTER_CLIENTS. */
export const FIXED_TOKEN = 'fixed--0123456789abcdef';

export interface Answer {
  status: number;
  challenges: string[];
  retryAfter: string | undefined;
  body: { [member: string]: unknown };
}

/** A real server whose `/client`, `/root` and `/either` want these callers, and answer who called. */
export class GuardedServer {
  readonly redis: TestStore;
  /** The lines of the log. */
  readonly log: Record<string, unknown>[] = [];
  #server: Server | undefined;
  #port = 0;
  readonly #options: Partial<AuthenticationParts>;

  /** Two servers with the same `redis` stand for two web processes. */
  constructor(options: Partial<AuthenticationParts> = {}, redis = new TestStore()) {
    this.#options = options;
    this.redis = redis;
    aroundTests(
      async () => {
        this.#server = createServer(this.#app());
        this.#port = await listenLocally(this.#server);
      },
      () => this.#server?.close(),
    );
  }

  get clients(): Clients {
    return new Clients(this.redis.store, [FIXED_TOKEN]);
  }

  get port(): number {
    if (this.#port === 0) throw new Error('the tests have not begun');
    return this.#port;
  }

  /** Sends a request with the target as it is given, and with an Authorization header for each value. */
  async get(target: string, ...authorization: string[]): Promise<Answer> {
    return this.call(
      target,
      authorization.map((value) => ['Authorization', value]),
    );
  }

  /** Sends a request with any headers. */
  async call(target: string, more: [name: string, value: string][]): Promise<Answer> {
    const headers = ['Host', `127.0.0.1:${this.port}`, ...more.flat()];
    const call = request({ host: '127.0.0.1', port: this.port, path: target, headers, agent: false }).end();
    const [answer] = await once(call, 'response');
    let text = '';
    for await (const chunk of answer) text += chunk;
    const challenges = answer.headersDistinct['www-authenticate'] ?? [];
    const retryAfter = answer.headers['retry-after'];
    return { status: answer.statusCode, challenges, retryAfter, body: JSON.parse(text) };
  }

  #app(): RequestListener {
    const log = pino(
      { base: null, timestamp: false },
      { write: (line) => void this.log.push(JSON.parse(line)) },
    );
    const clients = new ClientDirectory({ find: (token) => this.clients.find(token) });
    // Hooks of a file do not wait for each other, so the store may be there later than this server.
    const store: AuthenticationParts['store'] = {
      run: (...call) => this.redis.store.run(...call),
      command: (command) => this.redis.store.command(command),
    };
    const authentication = buildAuthentication({
      ...{ rootKey: ROOT_KEY, clients, log, store },
      ...this.#options,
    });
    const guarded = (path: string, roles: readonly Role[]) =>
      (['GET', 'POST'] as const).map((method) =>
        route(`${method} /${path}`, roles, {
          answers: { 200: z.custom<Caller>() },
          handle: async ({ caller }) => ok(caller),
        }),
      );
    const routes = [
      ...guarded('client{/*rest}', ['client']),
      ...guarded('root', ['root']),
      ...guarded('either', ['client', 'root']),
    ];
    return createApp(routes, pipelineParts({ authentication, log }));
  }
}

export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}
