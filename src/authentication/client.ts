import { hash } from 'node:crypto';
import type { Scopes } from '../caller.ts';
import { clock } from '../clock.ts';
import { secret as newSecret, tokenSuffix } from '../ids.ts';
import type { Partition } from '../store/partition.ts';
import { readScopes, scopeFields } from './scope.ts';

/** The realm of both schemes. It is part of every stored HA1: were it changed, every client would need a new secret. */
export const REALM = 'Routemaster';

export const CLIENT_NAME = /^[a-z0-9_]{1,64}$/;
/** Tokens that clients choose, that the bus makes, and that Routemaster made (`name--` and 32 hex digits). */
export const CLIENT_TOKEN = /^[a-z0-9_-]{1,64}$/;
/** A longer name leaves no room in a token of 64 for `--` and the random part. */
export const MAX_NAME_LENGTH_OF_MADE_TOKEN = 42;

export type DigestAlgorithm = 'SHA-256' | 'MD5';

/** Their names in node:crypto. */
export const HASHES = { 'SHA-256': 'sha256', MD5: 'md5' } as const;

/** RFC 7616's H(username ":" realm ":" password) in hex. Only this is kept of a secret; within the realm it is as good as the secret. */
export function ha1(algorithm: DigestAlgorithm, user: string, secret: string): string {
  return hash(HASHES[algorithm], `${user}:${REALM}:${secret}`);
}

/** The HA1 digests of a secret. */
export interface Digests {
  sha256: string;
  md5: string;
}

export interface Client {
  token: string;
  name: string;
  /** Null for a token-only client: its token is its credential, and any password goes with it. */
  ha1: Digests | null;
  /** Those of the secret before this one, while it still works. */
  former?: Digests;
  /** If it is limited. */
  scopes?: Scopes;
}

export type Rotated = { secret: string } | 'client_not_found' | 'no_secret';

/** Holders of API tokens: those in Redis, and those of `ROUTEMASTER_CLIENTS`, which are token-only. */
export class Clients {
  readonly #store: Partition;
  readonly #fixed: ReadonlyMap<string, Client>;

  constructor(store: Partition, fixedTokens: readonly string[]) {
    this.#store = store;
    this.#fixed = new Map(fixedTokens.map((token) => [token, { token, name: nameIn(token), ha1: null }]));
  }

  /**
   * Makes a client with a token and a secret of its own; names need not be unique. `name` is a CLIENT_NAME of at most
   * MAX_NAME_LENGTH_OF_MADE_TOKEN. The secret cannot be had again: only digests of it are stored.
   */
  async create(name: string, scopes: Scopes = {}): Promise<{ token: string; name: string; secret: string }> {
    const token = `${name}--${tokenSuffix()}`;
    const secret = newSecret();
    const digests = { ha1_sha256: ha1('SHA-256', token, secret), ha1_md5: ha1('MD5', token, secret) };
    const fields = { ...digests, ...scopeFields(scopes), created_at: clock.wallMs() };
    await this.#store.command((redis, keys) =>
      replies(redis.multi().hset(keys.api_tokens(), token, name).hset(keys.api_token(token), fields)),
    );
    return { token, name, secret };
  }

  /**
   * Registers a token-only client. If the token exists, its name and scopes become these, and it loses any secret it had.
   */
  async register(name: string, token: string, scopes: Scopes = {}): Promise<{ token: string; name: string }> {
    await this.#store.command((redis, keys) => {
      const key = keys.api_token(token);
      const commands = redis
        .multi()
        .hset(keys.api_tokens(), token, name)
        .hdel(key, 'ha1_sha256', 'ha1_md5', 'publish', 'subscribe')
        .del(keys.former_secret(token))
        .hsetnx(key, 'created_at', clock.wallMs());
      const fields = scopeFields(scopes);
      return replies(Object.keys(fields).length > 0 ? commands.hset(key, fields) : commands);
    });
    return { token, name };
  }

  /** Gives the client a new secret. The present one works for `graceMs` more; one before that ends now. */
  async rotate(token: string, graceMs: number): Promise<Rotated> {
    const secret = newSecret();
    const outcome = await this.#store.run('rotate_secret', {
      token,
      ha1Sha256: ha1('SHA-256', token, secret),
      ha1Md5: ha1('MD5', token, secret),
      graceMs,
    });
    return outcome === 'ok' ? { secret } : outcome;
  }

  /** The clients in Redis with their scopes, by name, then by token. Leaves out those of `ROUTEMASTER_CLIENTS`. */
  async list(): Promise<({ token: string; name: string } & Scopes)[]> {
    const names = Object.entries(
      await this.#store.command((redis, keys) => redis.hgetall(keys.api_tokens())),
    );
    const scopes = await this.#store.command((redis, keys) => {
      const reads = redis.pipeline();
      for (const [token] of names) reads.hmget(keys.api_token(token), 'publish', 'subscribe');
      return replies(reads);
    });
    return names
      .map(([token, name], index) => ({ token, name, ...readScopes(...(scopes[index] as [Field, Field])) }))
      .sort((a, b) => compare(a.name, b.name) || compare(a.token, b.token));
  }

  /** Resolves with whether the client was in Redis. A token that `isFixed` stays a client's. Works when Redis is full. */
  async remove(token: string): Promise<boolean> {
    // No MULTI: a full Redis refuses all that is queued in one, even reads. The name goes first, as that ends the client.
    const [removed] = await this.#store.command((redis, keys) =>
      replies(
        redis.pipeline().hdel(keys.api_tokens(), token).del(keys.api_token(token), keys.former_secret(token)),
      ),
    );
    return removed === 1;
  }

  /** Whether `ROUTEMASTER_CLIENTS` names the token. */
  isFixed(token: string): boolean {
    return this.#fixed.has(token);
  }

  async find(token: string): Promise<Client | undefined> {
    return this.#fixed.get(token) ?? (await this.#read(token));
  }

  async #read(token: string): Promise<Client | undefined> {
    // The name is read last, so that a client removed in between is not found. Otherwise it would look like one without a
    // secret, and its public token alone would let anybody in. The former secret is read after the present one, so that a secret
    // rotated in between is found in one of the two. (No MULTI: see `remove`.)
    const [fields, former, name] = await this.#store.command((redis, keys) =>
      replies(
        redis
          .pipeline()
          .hmget(keys.api_token(token), 'ha1_sha256', 'ha1_md5', 'publish', 'subscribe')
          .hmget(keys.former_secret(token), 'ha1_sha256', 'ha1_md5')
          .hget(keys.api_tokens(), token),
      ),
    );
    if (typeof name !== 'string') return undefined;
    const [sha256, md5, publish, subscribe] = fields as [Field, Field, Field, Field];
    const formerDigests = digestsIn(...(former as [Field, Field]));
    const client: Client = { token, name, ha1: digestsIn(sha256, md5) };
    if (formerDigests) client.former = formerDigests;
    if (publish !== null || subscribe !== null) client.scopes = readScopes(publish, subscribe);
    return client;
  }
}

type Field = string | null;

/** One digest is enough to make it a secret: half a record must refuse callers, never admit them. */
function digestsIn(sha256: string | null, md5: string | null): Digests | null {
  return sha256 === null && md5 === null ? null : { sha256: sha256 ?? '', md5: md5 ?? '' };
}

/** The part of a token before its first `--`, where the bus puts the name. A fixed token may look like anything. */
function nameIn(token: string): string {
  const name = token.split('--', 1)[0] ?? '';
  return name !== token && CLIENT_NAME.test(name) ? name : 'unnamed';
}

/** By code unit, so that the order is the same on every host. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

interface Commands {
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/** The reply of each command. Throws the error of the first that failed; EXEC's own error says only that one did. */
async function replies(commands: Commands): Promise<unknown[]> {
  const outcomes = await commands.exec().catch((error: { previousErrors?: Error[] }) => {
    throw error.previousErrors?.[0] ?? error;
  });
  return (outcomes ?? []).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}
