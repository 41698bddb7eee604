import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BusAnswerError } from '../http/bus_client.ts';
import type { Client } from '../http/client.ts';
import { type Answer, Receiver } from '../http/receiver.ts';
import type { Owner, RunningBus } from '../processes/running_bus.ts';
import { RawConnection } from './raw_connection.ts';

interface Scopes {
  publish?: string[];
  subscribe?: string[];
}

interface RawRequest {
  headers?: Record<string, string>;
  body?: string;
  /** True for a request without credentials. */
  stranger?: boolean;
}

/** A hostile client with the rights of an ordinary one: a token, a secret and perhaps scopes. */
export class Attacker {
  readonly client: Client;
  /**
   * Number of answers by status, on connections and to `tries`. 0 counts calls without an answer, and 200
   * counts every 2xx of `tries`.
   */
  readonly statuses = new Map<number, number>();
  /** A topic that no other attacker has. */
  readonly topic = `evil_${randomBytes(8).toString('hex')}`;
  readonly #url: string;
  readonly #owner: Owner;

  /** Starts an attacker. What it opens is closed when `owner` ends. */
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

  /** The attacker's Authorization header. */
  get authorization(): string {
    return `Basic ${btoa(`${this.client.token}:${this.client.secret}`)}`;
  }

  /** Returns the bytes of a request with the attacker's credentials. To pipeline, repeat them. */
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
        ...(!headers['transfer-encoding'] && { 'content-length': `${Buffer.byteLength(body)}` }),
      }),
      ...headers,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
  }

  /** Opens a connection to web for raw bytes. */
  async connect(): Promise<RawConnection> {
    const connection = await RawConnection.open(this.port, (status) => this.#count(status));
    this.#owner.after(() => connection.close());
    return connection;
  }

  /** Makes a call. It may be refused, or get no answer. */
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
   * Starts a receiver, and returns its callback. It listens on all addresses of this machine, answers
   * everything with `status` after `afterMs`, and remembers nothing. It asks the bus to keep connections for
   * `keepAliveMs`.
   */
  async sink({ afterMs = 0, keepAliveMs = 5000, status = 204 } = {}): Promise<string> {
    const server = createServer((request, response) => {
      request.on('error', () => {}).resume();
      request.on('end', () => setTimeout(() => response.writeHead(status).end(), afterMs));
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
