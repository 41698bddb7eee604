import type { IncomingMessage } from 'node:http';
import { LRUCache } from 'lru-cache';
import { BasicStrategy } from 'passport-http';
import type { ClientCaller } from '../caller.ts';
import { credentialsOf, notByPassport } from './authorization.ts';
import type { Client } from './client.ts';
import type { ClientDirectory } from './client_directory.ts';
import type { Credentials } from './credentials.ts';
import { REALM } from './digests.ts';
import type { Refusal, Verdict } from './verdict.ts';

/** Maximum number of credentials that are remembered, and the maximum length of each in characters. */
const REMEMBERED = { max: 10_000, length: 256 };

/** Credentials that were right. `client` is the object of the client directory against which they were checked. */
interface Proved {
  client: Client;
  caller: ClientCaller;
}

const NO_PAIR: Refusal = { reason: 'malformed', advice: 'after Basic comes user:password in Base64' };

/**
 * Basic authentication (RFC 7617). `judge` replaces `authenticate` of passport-http, which has three faults: it
 * refuses empty passwords, cuts passwords at their first colon, and uses the deprecated `new Buffer`.
 */
export class Basic extends BasicStrategy {
  readonly #credentials: Credentials;
  readonly #clients: Pick<ClientDirectory, 'known'>;
  /**
   * Credentials that were right, by their text in the header. They stay right while the client directory, which reads
   * each client from Redis anew after a second, still returns the same object for their client. So a client's
   * credentials are hashed once a second. Hashing them for each request takes a sixth of a publish's CPU.
   */
  readonly #proved = new LRUCache<string, Proved>({ max: REMEMBERED.max });

  constructor(credentials: Credentials, clients: Pick<ClientDirectory, 'known'>) {
    super({ realm: REALM }, notByPassport);
    this.#credentials = credentials;
    this.#clients = clients;
  }

  override authenticate = notByPassport;

  /** Checks the credentials of a request. Throws StorageUnavailable if the client cannot be looked up. */
  judge(request: IncomingMessage): Verdict | Promise<Verdict> {
    const text = credentialsOf(request);
    const proved = this.#proved.get(text);
    if (proved && this.#clients.known(proved.client.token) === proved.client) return proved.caller;
    const decoded = Buffer.from(text, 'base64').toString();
    const colon = decoded.indexOf(':');
    if (colon < 0) return NO_PAIR;
    const verdict = this.#credentials.checkPassword(decoded.slice(0, colon), decoded.slice(colon + 1));
    if ('role' in verdict && verdict.role === 'client') this.#remember(text, verdict);
    return verdict;
  }

  #remember(text: string, caller: ClientCaller): void {
    const client = this.#clients.known(caller.token);
    if (client && text.length <= REMEMBERED.length) this.#proved.set(text, { client, caller });
  }

  challenge(): string {
    return `Basic realm="${REALM}", charset="UTF-8"`;
  }
}
