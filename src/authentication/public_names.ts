import { createHmac } from 'node:crypto';
import type { Caller } from '../caller.ts';
import { joinToken, ownerOf, readJoinToken } from '../join_token.ts';
import type { Client } from './client.ts';
import type { NameKey } from './name_key.ts';

const HMAC_DIGITS = 16;

/**
 * Names clients in figures and logs. The token of a client without a secret is a credential, so it is shown
 * as `name.` and 16 digits of an HMAC of it. Without the key of the bus, nobody can test guesses at the token
 * against the name. Tokens that the bus makes have no dot, so names and tokens cannot be confused. A join is
 * called `join:`, its name, a colon and the public name of its client.
 */
export class PublicNames {
  readonly #clients: { find(token: string): Promise<Client | undefined> };
  readonly #key: NameKey;

  constructor(clients: { find(token: string): Promise<Client | undefined> }, key: NameKey) {
    this.#clients = clients;
    this.#key = key;
  }

  /**
   * Resolves with a function from these tokens to public names. A client that no longer exists is called
   * `unknown.` and its digits, because it may have had no secret. Throws what `find` throws, and as Partition
   * does.
   */
  async of(tokens: Iterable<string>): Promise<(token: string) => string> {
    const distinct = [...new Set(Iterator.from(tokens).map(ownerOf))];
    const [key, ...clients] = await Promise.all([
      this.#key.load(),
      ...distinct.map((token) => this.#clients.find(token)),
    ]);
    const names = new Map(distinct.map((token, index) => [token, publicName(key, token, clients[index])]));
    return (token) => {
      const owner = ownerOf(token);
      return named(token, names.get(owner) ?? publicName(key, owner, undefined));
    };
  }

  /**
   * Resolves with a function from these tokens to what the caller may see. Root sees all tokens, and a client
   * its own; the others are shown by public names.
   */
  async seenBy(caller: Caller, tokens: Iterable<string>): Promise<(token: string) => string> {
    if (caller.role === 'root') return (token) => token;
    const own = caller.role === 'client' ? caller.token : undefined;
    const nameOf = await this.of([...tokens].filter((token) => token !== own));
    return (token) => (token === own ? token : nameOf(token));
  }

  /**
   * Resolves with the token of the subscriber that a caller names. Viewers give its public name, all others its
   * token. `tokens` resolves with the tokens of all subscribers, and `looked` is how many were looked through.
   */
  async named(
    { role }: Caller,
    name: string,
    tokens: () => Promise<string[]>,
  ): Promise<{ token: string | undefined; looked: number }> {
    if (role !== 'viewer') return { token: name, looked: 0 };
    let looked = 0;
    const token = await this.tokenOf(name, async () => {
      const all = await tokens();
      looked = all.length;
      return all;
    });
    return { token, looked };
  }

  /**
   * Resolves with the token that has this public name; undefined if none of `tokens` has. A token that is a credential
   * has another text as its name, and is not found by itself: otherwise viewers could test guesses at it. For the
   * name of a join, resolves with the token that such a join has, even if there is no such join.
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

/** Returns the public name of a subscriber, or of a join, from that of its client. */
function named(token: string, clientName: string): string {
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
