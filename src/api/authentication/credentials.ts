import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { type Client, ha1 } from '../../models/client.ts';
import type { ClientDirectory } from '../../models/client_directory.ts';
import type { Caller, Judged, Verdict } from './caller.ts';

/** Digest needs a user name for root; Basic has the root key itself there. */
export const ROOT_USER = 'root';

/** A caller that a Digest user name stands for, with what proves it; null if nothing can. */
export interface Holder {
  caller: Caller;
  ha1: Client['ha1'];
}

/** Called with what was found, if anything, or with the error of the lookup. */
export type HolderFound = (error: unknown, holder?: Holder) => void;

const ROOT: Caller = { role: 'root' };

/** Compared with where there is no client, so that an unknown user costs what a known one costs. Matches nothing. */
export const NOBODY = { sha256: randomBytes(32).toString('hex'), md5: randomBytes(16).toString('hex') };

/** Whether two digests in hex are the same, in a time that does not tell how much of them is. */
export function sameDigest(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

/** The root key and the clients, as the two schemes ask for them. Calls back at once where no lookup is needed. */
export class Credentials {
  readonly #clients: ClientDirectory;
  readonly #rootKeyDigest: string;
  readonly #root: Holder;

  constructor(rootKey: string, clients: ClientDirectory) {
    this.#clients = clients;
    this.#rootKeyDigest = hash('sha256', rootKey);
    const digests = { sha256: ha1('SHA-256', ROOT_USER, rootKey), md5: ha1('MD5', ROOT_USER, rootKey) };
    this.#root = { caller: ROOT, ha1: digests };
  }

  isRootKey(text: string): boolean {
    return sameDigest(hash('sha256', text), this.#rootKeyDigest);
  }

  /** For Basic. The root key is never looked up, as that would send it to Redis; so no client can stand in front of it. */
  checkPassword(user: string, password: string, done: Judged): void {
    const known = this.#clients.known(user);
    if (known) done(null, judge(known, user, password));
    else if (this.isRootKey(user)) done(null, ROOT);
    else this.#clients.find(user).then((client) => done(null, judge(client, user, password)), done);
  }

  /** For Digest. Gives no holder for an unknown user. */
  findHolder(user: string, done: HolderFound): void {
    const known = user === ROOT_USER ? this.#root : holder(this.#clients.known(user));
    if (known) done(null, known);
    else this.#clients.find(user).then((client) => done(null, holder(client)), done);
  }
}

function judge(client: Client | undefined, user: string, password: string): Verdict {
  if (client?.ha1 === null) return callerFor(client);
  const right = sameDigest(ha1('SHA-256', user, password), client?.ha1.sha256 ?? NOBODY.sha256);
  if (!client) return { message: 'unknown user' };
  return right ? callerFor(client) : { message: 'wrong secret', client: client.token };
}

function holder(client: Client | undefined): Holder | undefined {
  return client && { caller: callerFor(client), ha1: client.ha1 };
}

function callerFor({ token, name }: Client): Caller {
  return { role: 'client', token, name };
}
