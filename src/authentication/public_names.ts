import { hash } from 'node:crypto';
import type { Client } from './client.ts';

const HASH_DIGITS = 8;

/**
 * Names clients in figures and logs. The token of a client without a secret is a credential, so it is shown
 * as `name.1a2b3c4d`. Tokens that the bus makes have no dot, so names and tokens cannot be confused.
 */
export class PublicNames {
  readonly #clients: { find(token: string): Promise<Client | undefined> };

  constructor(clients: { find(token: string): Promise<Client | undefined> }) {
    this.#clients = clients;
  }

  /**
   * Resolves with a function from these tokens to public names. A client that no longer exists is
   * `unknown.1a2b3c4d`, because it may have had no secret. Throws what `find` throws.
   */
  async of(tokens: Iterable<string>): Promise<(token: string) => string> {
    const distinct = [...new Set(tokens)];
    const clients = await Promise.all(distinct.map((token) => this.#clients.find(token)));
    const names = new Map(distinct.map((token, index) => [token, publicName(token, clients[index])]));
    return (token) => names.get(token) ?? publicName(token, undefined);
  }
}

function publicName(token: string, client: Client | undefined): string {
  if (client?.ha1) return token;
  return `${client?.name ?? 'unknown'}.${hash('sha256', token).slice(0, HASH_DIGITS)}`;
}
