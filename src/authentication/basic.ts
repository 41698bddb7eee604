import type { IncomingMessage } from 'node:http';
import { BasicStrategy } from 'passport-http';
import type { ClientCaller } from '../routing/caller.ts';
import { credentialsOf, notByPassport } from './authorization.ts';
import type { Client } from './client.ts';
import type { ClientDirectory } from './client_directory.ts';
import { areEqual, type Credentials, KEY_USERS } from './credentials.ts';
import { REALM } from './digests.ts';
import type { Refusal, Verdict } from './verdict.ts';

/** Maximum length of credentials that are remembered. A token and a secret of the bus have about 80 bytes together. */
const MAX_REMEMBERED_BYTES = 256;

/** Credentials that were checked and are correct, as bytes of `user:password`, and the caller whom they identify. */
interface Proved {
  credentials: Buffer;
  caller: ClientCaller;
}

const NO_PAIR: Refusal = { reason: 'malformed', advice: 'after Basic comes user:password in Base64' };

/**
 * Basic authentication (RFC 7617). `judge` replaces `authenticate` of passport-http, which has three faults: it
 * refuses empty passwords, cuts passwords at their first colon, and uses the deprecated `new Buffer`.
 */
export class Basic extends BasicStrategy {
  readonly #credentials: Credentials;
  readonly #clients: Pick<ClientDirectory, 'cached'>;
  /**
   * The last correct credentials of each client, by its Client object. Comparing with them is cheaper than hashing, and
   * saves a twelfth of the CPU of a publish. For a client in Redis, `ClientDirectory` gives the same Client object for
   * at most a second, so an old secret is accepted for at most a second.
   */
  readonly #proved = new WeakMap<Client, Proved>();

  constructor(credentials: Credentials, clients: Pick<ClientDirectory, 'cached'>) {
    super({ realm: REALM }, notByPassport);
    this.#credentials = credentials;
    this.#clients = clients;
  }

  override authenticate = notByPassport;

  /** Throws StorageUnavailable if the client cannot be looked up. */
  async judge(request: IncomingMessage): Promise<Verdict> {
    const credentials = Buffer.from(credentialsOf(request), 'base64');
    const colon = credentials.indexOf(':');
    if (colon < 0) return NO_PAIR;
    const user = credentials.toString('utf8', 0, colon);
    const client = this.#clients.cached(user);
    const proved = client && this.#proved.get(client);
    if (proved && areEqual(proved.credentials, credentials)) return proved.caller;
    const verdict = await this.#credentials.checkPassword(user, credentials.toString('utf8', colon + 1));
    const isRight = 'role' in verdict && verdict.role === 'client';
    if (client && isRight && credentials.length <= MAX_REMEMBERED_BYTES)
      this.#proved.set(client, { credentials: copyOf(credentials), caller: verdict });
    if ('role' in verdict || !KEY_USERS.some((each) => each === user)) return verdict;
    return {
      ...verdict,
      advice: `the user ${user} is for Digest; with Basic, the ${user} key itself is the user: curl -u KEY:`,
    };
  }

  challenge(): string {
    return `Basic realm="${REALM}", charset="UTF-8"`;
  }
}

/**
 * Returns a copy with its own memory. `bytes` may be a part of a larger Buffer, which would stay in memory as a whole.
 */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}
