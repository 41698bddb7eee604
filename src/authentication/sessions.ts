import { createHmac, hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { nanoid } from 'nanoid';
import type { Caller, Role } from '../routing/caller.ts';
import type { Partition } from '../store/partition.ts';
import { type Credentials, userOf } from './credentials.ts';

const COOKIE = 'routemaster_session';
const COOKIE_PATH = '/console';
/** Maximum duration of a session, however much it is used. */
const LIFETIME_MS = 12 * 3_600_000;
/** Maximum sessions of one client, of root, or of all viewers together. Another login ends the oldest session. */
const MAX_SESSIONS = 20;
const ID_LENGTH = 32;

/** A session as Redis holds it. */
interface Stored {
  role: Role;
  token?: string;
  /** Digest of the credential with which the caller logged in. The session ends when the credential becomes invalid. */
  proof: string;
}

export interface Session {
  caller: Caller;
  /**
   * A text that every form of the console must contain: an HMAC made from the session's id. Other sites cannot know it,
   * so they cannot send a form in the visitor's name.
   */
  formToken: string;
}

/**
 * The sessions of the console. A session's cookie contains an id of 192 random bits. Redis stores only the SHA-256 of
 * the id.
 */
export class Sessions {
  readonly #control: Partition;
  readonly #credentials: Credentials;

  constructor(control: Partition, credentials: Credentials) {
    this.#control = control;
    this.#credentials = credentials;
  }

  /** Begins a session. Resolves with the value of the header `Set-Cookie`. Throws StorageUnavailable. */
  async begin(caller: Caller, user: string, password: string, isHttps: boolean): Promise<string> {
    const id = nanoid(ID_LENGTH);
    const stored: Stored = {
      role: caller.role,
      proof: await this.#credentials.sessionProof(caller, user, password),
    };
    if (caller.role === 'client') stored.token = caller.token;
    await this.#control.run('begin_session', {
      owner: userOf(caller),
      digest: digestOf(id),
      session: JSON.stringify(stored),
      lifetimeMs: LIFETIME_MS,
      max: MAX_SESSIONS,
    });
    return cookie(id, LIFETIME_MS / 1000, isHttps);
  }

  /** Resolves with the session that the cookie names, or with undefined if it has ended or never existed. */
  async of(headers: IncomingHttpHeaders): Promise<Session | undefined> {
    const found = await this.#find(headers);
    if (!found) return undefined;
    const { id, role, token, proof } = found;
    const caller = await this.#credentials.callerWith(role, token, proof);
    return caller && { caller, formToken: formTokenOf(id) };
  }

  /** Ends the session that the cookie names. Resolves with a `Set-Cookie` header that deletes the cookie. */
  async end(headers: IncomingHttpHeaders, isHttps: boolean): Promise<string> {
    const found = await this.#find(headers);
    if (found) {
      const { id, role, token } = found;
      await this.#control.command((redis, keys) =>
        Promise.all([
          redis.unlink(keys.session(digestOf(id))),
          // The session also leaves the caller's list of sessions. If it stayed there, it would count among
          // MAX_SESSIONS, and a later login would end a valid session in its place.
          redis.zrem(keys.sessions(token ?? role), digestOf(id)),
        ]),
      );
    }
    return cookie('', 0, isHttps);
  }

  async #find(headers: IncomingHttpHeaders): Promise<(Stored & { id: string }) | undefined> {
    const id = idIn(headers);
    if (id === undefined) return undefined;
    const text = await this.#control.command((redis, keys) => redis.get(keys.session(digestOf(id))));
    return text === null ? undefined : { id, ...(JSON.parse(text) as Stored) };
  }
}

function cookie(value: string, maxAgeSeconds: number, isHttps: boolean): string {
  const attributes = `Max-Age=${maxAgeSeconds}; Path=${COOKIE_PATH}; HttpOnly; SameSite=Strict`;
  return `${COOKIE}=${value}; ${attributes}${isHttps ? '; Secure' : ''}`;
}

function idIn({ cookie: header = '' }: IncomingHttpHeaders): string | undefined {
  return new RegExp(`(?:^|; *)${COOKIE}=([\\w-]{${ID_LENGTH}})(?:;|$)`).exec(header)?.[1];
}

function digestOf(id: string): string {
  return hash('sha256', id, 'base64url');
}

function formTokenOf(id: string): string {
  return createHmac('sha256', id).update('form').digest('base64url');
}
