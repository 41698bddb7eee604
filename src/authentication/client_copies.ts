import type { Scopes } from '../caller.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { readScopes, scopeList } from './scope.ts';

/** Number of clients that one call compares. 300 take Redis about 1 ms. */
const SLICE = 300;

/**
 * What a partition other than the control partition stores of a client. Scripts in that partition need it to judge the
 * client's triggers. It contains no secret.
 */
export interface KnownClient {
  token: string;
  name: string;
  scopes: Scopes;
}

/**
 * Registers a client in a partition other than the control partition, in the same way as `Clients.register` does it in
 * the control partition. A repeat is harmless.
 */
export function registerIn(
  partition: Partition,
  { token, name, scopes }: KnownClient,
): Promise<Reply<'register_client'>> {
  return partition.run('register_client', { token, name, scopes: scopeList(scopes) });
}

/**
 * Corrects the copies of clients in a partition other than the control partition. They can be wrong if a call that
 * changed a client was cut off. Registers the clients of the control partition that are missing or different there, and
 * removes those that no longer exist. Resolves with the tokens of joins that ended.
 */
export async function repairCopies(
  control: Partition,
  other: Partition,
  signal: AbortSignal,
): Promise<string[]> {
  const ended: string[] = [];
  for await (const tokens of tokensOf(control, signal)) {
    const [clients, copies] = await Promise.all([readKnown(control, tokens), readKnown(other, tokens)]);
    for (const token of tokens) {
      if (isSame(clients.get(token), copies.get(token))) continue;
      const now = (await readKnown(control, [token])).get(token);
      if (now) ended.push(...(await registerIn(other, now)).ended);
    }
  }
  // A client is registered in the control partition first. So a copy whose client is not there now belongs to a
  // removed client.
  for await (const tokens of tokensOf(other, signal)) {
    const clients = await readKnown(control, tokens);
    for (const token of tokens) if (!clients.has(token)) await other.run('remove_client', { token });
  }
  return ended;
}

async function* tokensOf(partition: Partition, signal: AbortSignal): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, flat] = await partition.command((redis, keys) =>
      redis.hscan(keys.api_tokens(), cursor, 'COUNT', SLICE),
    );
    cursor = next;
    yield flat.filter((_, index) => index % 2 === 0);
  } while (cursor !== '0' && !signal.aborted);
}

/** Returns those of the clients with these tokens that the partition stores, by token. */
async function readKnown(partition: Partition, tokens: readonly string[]): Promise<Map<string, KnownClient>> {
  if (tokens.length === 0) return new Map();
  const found = await partition.run('known_clients', { tokens: [...tokens] });
  const known = new Map<string, KnownClient>();
  for (const [index, token] of tokens.entries()) {
    const { name, publish = null, subscribe = null } = found[index] ?? {};
    if (name !== undefined) known.set(token, { token, name, scopes: readScopes(publish, subscribe) });
  }
  return known;
}

function isSame(one: KnownClient | undefined, other: KnownClient | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
