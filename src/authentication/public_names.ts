import { createHmac } from 'node:crypto';
import { chunksOf } from '../chunks.ts';
import { joinToken, ownerOf, readJoinToken } from '../ids.ts';
import { type Caller, clientOf } from '../routing/caller.ts';
import { ENTRIES_PER_CALL } from '../routing/picking.ts';
import { isWrongType } from '../store/wrong_type.ts';
import type { Client, Clients } from './client.ts';
import type { NameKey } from './name_key.ts';

const HMAC_DIGITS = 16;
/** Number of clients to look up in one turn of the event loop. 200 take about 2 ms. */
const CLIENTS_PER_TURN = 200;

/**
 * Gives clients and joins the names that appear in figures and logs.
 * - A client with a secret: its token, which is public and has no dot.
 * - A client without a secret: its name, a dot and 16 digits of an HMAC of its token. The token is a credential.
 * - A join: `join:`, the name of the join, a colon and the public name of its client.
 */
export class PublicNames {
  readonly #clients: Pick<Clients, 'find'>;
  readonly #key: NameKey;

  constructor(clients: Pick<Clients, 'find'>, key: NameKey) {
    this.#clients = clients;
    this.#key = key;
  }

  /**
   * Resolves with a function that returns the public name of each token. A token whose client does not exist, or is
   * damaged in Redis, gets the name `unknown.` and 16 digits of its HMAC. Throws StorageUnavailable.
   */
  async of(tokens: Iterable<string>): Promise<(token: string) => string> {
    const distinct = [...new Set(Iterator.from(tokens).map(ownerOf))];
    const key = await this.#key.load();
    const names = new Map<string, string>();
    const name = async (token: string) =>
      names.set(token, publicName(key, token, await this.#clients.find(token).catch(unreadable)));
    for await (const chunk of chunksOf(distinct, CLIENTS_PER_TURN)) await Promise.all(chunk.map(name));
    return (token) => {
      const owner = ownerOf(token);
      return subscriberName(token, names.get(owner) ?? publicName(key, owner, undefined));
    };
  }

  /**
   * Like `of`, but never rejects: if the names cannot be read, the function returns `unknown, as Redis is away` for
   * every token.
   */
  allForLog(tokens: Iterable<string>): Promise<(token: string) => string> {
    return this.of(tokens).catch(() => () => 'unknown, as Redis is away');
  }

  async forLog(token: string): Promise<string> {
    return (await this.allForLog([token]))(token);
  }

  /**
   * Resolves with a function that returns what the caller may see of each token. Root sees all tokens, and a client
   * sees its own token, and the tokens of its joins. All other tokens are shown as public names.
   */
  async seenBy(caller: Caller, tokens: Iterable<string>): Promise<(token: string) => string> {
    if (caller.role === 'root') return (token) => token;
    const own = clientOf(caller);
    const nameOf = await this.of([...tokens].filter((token) => ownerOf(token) !== own));
    return (token) => (ownerOf(token) === own ? token : nameOf(token));
  }

  /**
   * Resolves with copies of the entries. In each copy, the token in `field` is replaced by what the caller may see of
   * this token. Null stays null.
   */
  async shownTo<Field extends string, T extends Record<Field, string | null>>(
    caller: Caller,
    entries: readonly T[],
    field: Field,
  ): Promise<T[]> {
    const nameOf = await this.seenBy(
      caller,
      entries.flatMap((entry) => entry[field] ?? []),
    );
    return entries.map((entry) => ({ ...entry, [field]: entry[field] && nameOf(entry[field]) }));
  }

  /**
   * Finds the token of the client or join that a caller names.
   * - Root and clients give the token itself. It is returned unchecked, so the route must refuse a client that gives
   *   another client's token.
   * - Viewers give the public name (see `tokenOf`).
   * `priceInCalls` is what the search costs, in calls of the caller's rate limit.
   */
  async tokenGiven(
    { role }: Caller,
    name: string,
    tokens: () => Promise<string[]>,
  ): Promise<{ token: string | undefined; priceInCalls: number }> {
    if (role !== 'viewer') return { token: name, priceInCalls: 0 };
    let priceInCalls = 0;
    const token = await this.tokenOf(name, async () => {
      const all = await tokens();
      priceInCalls = all.length / ENTRIES_PER_CALL;
      return new Set(all);
    });
    return { token, priceInCalls };
  }

  /**
   * Resolves with the token that has this public name, or with undefined.
   * - A name without a dot can only be the token of a client with a secret, so this client is looked up. A client
   *   without a secret is not found: otherwise viewers could try tokens and see which exist.
   * - A name with a dot is compared with the public names of all `tokens`.
   * - The name of a join includes the public name of its client. This method looks up only the client, and makes the
   *   token of the join from it. It does not check that the join exists.
   */
  async tokenOf(name: string, tokens: () => Promise<Iterable<string>>): Promise<string | undefined> {
    const join = readJoinToken(name);
    if (join) {
      const client = await this.tokenOf(join.client, async () => new Set([...(await tokens())].map(ownerOf)));
      return client && joinToken(join.name, client);
    }
    const digits = name.slice(name.lastIndexOf('.') + 1);
    if (digits === name) return (await this.#clients.find(name))?.ha1 ? name : undefined;
    const key = await this.#key.load();
    for (const token of await tokens())
      if (digitsOf(key, token) === digits && (await this.of([token]))(token) === name) return token;
    return undefined;
  }
}

function unreadable(error: unknown): undefined {
  if (!isWrongType(error)) throw error;
}

function subscriberName(token: string, clientName: string): string {
  const join = readJoinToken(token);
  return join ? joinToken(join.name, clientName) : clientName;
}

function publicName(key: Buffer, token: string, client: Client | undefined): string {
  if (client?.ha1) return token;
  return `${client?.name ?? 'unknown'}.${digitsOf(key, token)}`;
}

function digitsOf(key: Buffer, token: string): string {
  return createHmac('sha256', key).update(token).digest('hex').slice(0, HMAC_DIGITS);
}
