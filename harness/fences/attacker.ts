import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BusAnswerError } from '../http/bus_client.ts';
import type { Client } from '../http/client.ts';
import { type Answer, Receiver } from '../http/receiver.ts';
import type { Owner, RunningBus } from '../processes/running_bus.ts';
import { RawConnection } from './raw_connection.ts';

export interface Scopes {
  publish?: string[];
  subscribe?: string[];
}

export interface RawRequest {
  headers?: Record<string, string>;
  body?: string;
  /** Leave out the credentials. */
  stranger?: boolean;
}

/** An ordinary client that means ill: it has a token, a secret and perhaps scopes, and no other right. */
export class Attacker {
  readonly client: Client;
  /** How often each status was answered, to connections and to `tries`; 0 counts calls without an answer, 200 all 2xx of `tries`. */
  readonly statuses = new Map<number, number>();
  /** A topic of its own, which no other attacker has. */
  readonly topic = `evil_${randomBytes(8).toString('hex')}`;
  readonly #url: string;
  readonly #owner: Owner;

  /** `owner` ends what the attacker opens. */
  static async start(bus: RunningBus, owner: Owner, scopes: Scopes = {}): Promise<Attacker> {
    const made = await bus.root.call('POST', '/api_tokens', { name: 'attacker', ...scopes });
    const { token, secret } = made as { token: string; secret: string };
    return new Attacker(bus.clientOf(token, secret), bus.url, owner);
  }

  constructor(client: Client, url: string, owner: Owner) {
    this.client = client;
    this.#url = url;
    this.#owner = owner;
  }

  /** The port of web. */
  get port(): number {
    return Number(new URL(this.#url).port);
  }

  /** Its Authorization header. */
  get authorization(): string {
    return `Basic ${btoa(`${this.client.token}:${this.client.secret}`)}`;
  }

  /** The bytes of a request with its credentials. Repeat the text to pipeline. */
  request(
    method: string,
    path: string,
    { headers = {}, body = '', stranger = false }: RawRequest = {},
  ): string {
    const all = {
      host: `127.0.0.1:${this.port}`,
      ...(!stranger && { authorization: this.authorization }),
      ...(method !== 'GET' && {
        'content-type': 'application/json',
        'content-length': `${Buffer.byteLength(body)}`,
      }),
      ...headers,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
  }

  /** A connection to web for bytes as they are. */
  async connect(): Promise<RawConnection> {
    const connection = await RawConnection.open(this.port, (status) => this.#count(status));
    this.#owner.after(() => connection.close());
    return connection;
  }

  /** A call that may be refused, or get no answer. */
  async tries(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<void> {
    const status = await this.client.call(method, path, body, headers).then(
      () => 200,
      (error) => (error instanceof BusAnswerError ? error.status : 0),
    );
    this.#count(status);
  }

  /**
   * A callback that accepts everything after this time and remembers nothing, on any address of this machine. It asks the bus to keep
   * connections for `keepAliveMs`.
   */
  async sink({ afterMs = 0, keepAliveMs = 5000 } = {}): Promise<string> {
    const server = createServer((request, response) => {
      request.on('error', () => {}).resume();
      request.on('end', () => setTimeout(() => response.writeHead(204).end(), afterMs));
    });
    server.keepAliveTimeout = keepAliveMs;
    server.listen(0);
    await once(server, 'listening');
    this.#owner.after(() => {
      server.close();
      server.closeAllConnections();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  /** Subscribes to these topics with a receiver that gives this answer, such as `answer.late(900)` or `answer.hang`. */
  async subscribe(
    topics: string[],
    answers: Answer,
    wanted: Record<string, unknown> = {},
  ): Promise<Receiver> {
    const receiver = await Receiver.start();
    this.#owner.after(() => receiver.stop());
    receiver.usual = answers;
    const { callback } = receiver;
    await this.client.call('POST', '/subscription', { topics, callback, uuid: 'evil', ...wanted });
    return receiver;
  }

  #count(status: number): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
  }
}
