import { slicesOf } from '../chunks.ts';
import { secret as newSecret } from '../ids.ts';
import type { Scopes } from '../routing/caller.ts';
import { KeptList } from '../routing/kept_list.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { msOf, namedFields, pairsOf, replies } from '../store/replies.ts';
import { registerIn } from './client_copies.ts';
import { credentialToken, madeToken, nameIn } from './client_token.ts';
import { type Digests, digestsIn, ha1 } from './digests.ts';
import { readScopes, scopeFields } from './scope.ts';

/** Maximum clients that one Redis pipeline reads for a listing. */
const LIST_SLICE = 500;
/** About how many names one call of HSCAN reads. */
const NAMES_SLICE = 1000;

export interface Client {
  token: string;
  name: string;
  /** The digests of the client's secret. Null for a client without a secret, whose token is its credential. */
  ha1: Digests | null;
  /** The digests of the secret before the present one, while it is still valid. */
  former?: Digests;
  scopes?: Scopes;
}

export type TokenAndName = [token: string, name: string];

/** Returns the text by which listings sort clients. */
export const placeOf = ([token, name]: TokenAndName) => `${name}\0${token}`;

/** A client as a listing shows it. Times are in ms; null if they are not known. */
type ListedClient = ReturnType<typeof listedClient>;

const LISTED_FIELDS = ['publish', 'subscribe', 'ha1_sha256', 'created_at', 'secret_at', 'seen_at'] as const;

type Rotated = { secret: string } | Exclude<Reply<'rotate_secret'>, 'ok'>;

/**
 * The clients of the bus: those in Redis, and those of `ROUTEMASTER_CLIENTS`, which have no secret. The control
 * partition stores everything about a client. Each other partition stores a copy without the secret. A change is made
 * in the control partition first. The sweep, a periodic job, corrects copies that a change did not reach.
 */
export class Clients {
  readonly #control: Partition;
  readonly #others: readonly Partition[];
  readonly #fixed: ReadonlyMap<string, Client>;
  readonly #list: KeptList<TokenAndName>;

  /** `others` are all partitions except `control`. A caller that changes no client may leave them out. */
  constructor(control: Partition, fixedTokens: readonly string[], others: readonly Partition[] = []) {
    this.#control = control;
    this.#others = others;
    this.#list = new KeptList({ count: () => this.#count(), read: () => this.names(), placeOf });
    this.#fixed = new Map(fixedTokens.map((token) => [token, { token, name: nameIn(token), ha1: null }]));
  }

  /**
   * Creates a client with a secret, of which only the digests are stored. `name` must match CLIENT_NAME, and have at
   * most as many characters as `maxNameLength` returns.
   */
  async create(name: string, scopes: Scopes = {}): Promise<{ token: string; name: string; secret: string }> {
    const token = madeToken(name);
    const secret = newSecret();
    const digests = { ha1_sha256: ha1('SHA-256', token, secret), ha1_md5: ha1('MD5', token, secret) };
    const created_at = msOf(await this.#control.command((redis) => redis.time()));
    const fields = { ...digests, ...scopeFields(scopes), created_at };
    await this.#control.command((redis, keys) =>
      replies(redis.multi().hset(keys.api_tokens(), token, name).hset(keys.api_token(token), fields)),
    );
    await this.#copyNew({ token, name, scopes });
    return { token, name, secret };
  }

  /**
   * Creates a client without a secret, whose new token is its credential. `name` must match CLIENT_NAME, and have at
   * most as many characters as `maxNameLength` returns.
   */
  async createWithoutSecret(name: string, scopes: Scopes = {}): Promise<{ token: string; name: string }> {
    const token = credentialToken(name);
    await registerIn(this.#control, { token, name, scopes });
    await this.#copyNew({ token, name, scopes });
    return { token, name };
  }

  /**
   * Copies a new client to the other partitions. Errors are ignored: the client exists, and if the call threw, the
   * caller would never get the secret or token, and would make another client. The sweep, a periodic job, makes missing
   * copies later.
   */
  async #copyNew(client: Parameters<typeof registerIn>[1]): Promise<void> {
    this.#list.forget();
    await Promise.allSettled(this.#others.map((each) => registerIn(each, client)));
  }

  /**
   * Makes a client without a secret, or changes a client. Ends the client's subscriptions and joins that `scopes` do
   * not permit, and pauses its triggers that they do not permit. `ended` has the tokens of the joins that this call
   * ended; a repeated call does not return them again. `failure` is the error of another partition that did not change.
   * - With a name: makes the client, or changes its name and scopes. If the client has a secret, nothing changes, and
   *   the outcome is `has_secret`.
   * - Without a name: changes only the scopes of a client, with or without a secret. If the client does not exist, the
   *   outcome is `client_not_found`.
   */
  async register(
    name: string | undefined,
    token: string,
    scopes: Scopes = {},
  ): Promise<Reply<'register_client'> & { failure?: Error }> {
    const reply = await registerIn(this.#control, { token, name, scopes });
    this.#list.forget();
    if (reply.outcome !== 'ok') return reply;
    const client = { token, name: reply.name, scopes };
    const copies = await Promise.allSettled(this.#others.map((each) => registerIn(each, client)));
    const ended = copies.flatMap((copy) => (copy.status === 'fulfilled' ? copy.value.ended : []));
    const failure = copies.find((copy) => copy.status === 'rejected')?.reason as Error | undefined;
    return { ...reply, ended: [...reply.ended, ...ended], ...(failure && { failure }) };
  }

  /**
   * Makes a new secret for a client and returns it. The present secret stays valid for `graceMs`, and older ones end
   * now. If `secretAt` is given, does nothing unless the present secret was made at that time (ms).
   */
  async rotate(token: string, graceMs: number, secretAt?: number): Promise<Rotated> {
    const secret = newSecret();
    const outcome = await this.#control.run('rotate_secret', {
      token,
      ha1Sha256: ha1('SHA-256', token, secret),
      ha1Md5: ha1('MD5', token, secret),
      graceMs,
      secretAt,
    });
    return outcome === 'ok' ? { secret } : outcome;
  }

  /** Returns the token and name of all clients in Redis, unsorted. */
  async names(): Promise<TokenAndName[]> {
    const names = new Map<string, string>();
    const scan = this.#control.scan((redis, keys, cursor) =>
      redis.hscan(keys.api_tokens(), cursor, 'COUNT', NAMES_SLICE),
    );
    for await (const found of scan) for (const [token, name] of pairsOf(found)) names.set(token, name);
    return [...names];
  }

  /** Returns the clients in Redis, sorted as in listings. The list can be up to ten seconds old (see KeptList). */
  sorted(): Promise<readonly TokenAndName[]> {
    return this.#list.sorted();
  }

  #count(): Promise<number> {
    return this.#control.command((redis, keys) => redis.hlen(keys.api_tokens()));
  }

  /** Returns the clients with these tokens, in the same order. Skips those that do not exist or cannot be read. */
  async read(tokens: readonly string[]): Promise<ListedClient[]> {
    const clients: ListedClient[] = [];
    for (const slice of slicesOf(tokens, LIST_SLICE)) clients.push(...(await this.#readSome(slice)));
    return clients;
  }

  async #readSome(tokens: readonly string[]): Promise<ListedClient[]> {
    const [names = [], ...hashes] = (await this.#control.command((redis, keys) =>
      replies(
        redis.pipeline([
          ['hmget', keys.api_tokens(), ...tokens],
          ...tokens.map((token) => ['hmget', keys.api_token(token), ...LISTED_FIELDS]),
        ]),
        this.#control.skip,
      ),
    )) as (Field[] | undefined)[];
    return tokens.flatMap((token, index) => {
      const [name, hash] = [names[index], hashes[index]];
      return typeof name === 'string' && hash ? listedClient(token, name, hash) : [];
    });
  }

  /**
   * Returns the tokens of all clients that have no secret, if `matches` is true for the token. Clients of
   * `ROUTEMASTER_CLIENTS` are included.
   */
  async withoutSecret(matches: (token: string) => boolean): Promise<string[]> {
    const names = await this.#control.command((redis, keys) => redis.hgetall(keys.api_tokens()));
    const all = [...new Set([...this.#fixed.keys(), ...Object.keys(names)])].filter(matches);
    const clients = await Promise.all(all.map((token) => this.find(token)));
    return clients.flatMap((client) => (client?.ha1 === null ? client.token : []));
  }

  /**
   * Removes a client, so that it can no longer call, even if Redis is full. `removeCopies` removes what other
   * partitions have of it. Resolves with true if the client was in Redis.
   */
  async remove(token: string): Promise<boolean> {
    const removed = await this.#control.run('remove_client', { token });
    this.#list.forget();
    return removed;
  }

  /** Removes the copies of a removed client, and its triggers, from the other partitions. */
  async removeCopies(token: string): Promise<void> {
    await Promise.all(this.#others.map((each) => each.run('remove_client', { token })));
  }

  isFixed(token: string): boolean {
    return this.#fixed.has(token);
  }

  async find(token: string): Promise<Client | undefined> {
    return this.#fixed.get(token) ?? (await this.#read(token));
  }

  async #read(token: string): Promise<Client | undefined> {
    // A full Redis refuses every MULTI, so these are separate reads, and the client may change between two of them.
    // - The present secret is read before the former one. If it becomes the former one meanwhile, it is found twice. In
    //   the other order, it would be missed.
    // - The name is read last, and a client without a name counts as removed. If the name were read first and the
    //   client were then removed, it would look like a client without a secret, whose token alone is accepted.
    const [fields, former, name] = await this.#control.command((redis, keys) =>
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

function listedClient(token: string, name: string, values: readonly Field[]) {
  const hash = namedFields(LISTED_FIELDS, values);
  const ms = (text: string | undefined) => (text ? Number(text) : null);
  return {
    token,
    name,
    ...readScopes(hash.publish ?? null, hash.subscribe ?? null),
    created_at: ms(hash.created_at),
    secret_at: hash.ha1_sha256 ? ms(hash.secret_at ?? hash.created_at) : null,
    last_seen_at: ms(hash.seen_at),
  };
}
