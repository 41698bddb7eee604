import type { Scopes } from '../routing/caller.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { pairsOf } from '../store/replies.ts';
import { isWrongType } from '../store/wrong_type.ts';
import { readScopes, scopeList } from './scope.ts';

/** About how many clients `repairCopies` compares at a time. Reading 300 takes Redis about 1 ms. */
const CLIENTS_PER_SCAN = 300;

/** What every partition stores of a client, so that scripts there can check whether the scopes permit a trigger. */
interface KnownClient {
  token: string;
  name: string;
  scopes: Scopes;
}

/** Registers or changes a client in one partition, as `Clients.register` describes. A repeat is harmless. */
export function registerIn(
  partition: Partition,
  { token, name, scopes }: Pick<KnownClient, 'token' | 'scopes'> & { name: string | undefined },
): Promise<Reply<'register_client'>> {
  // `keepsName` tells the script to leave the name of the client as it is. An empty `name` cannot tell it, because
  // another program may have stored a client with an empty name.
  const named = { name: name ?? '', keepsName: name === undefined };
  return partition.run('register_client', { token, ...named, scopes: scopeList(scopes) });
}

/**
 * Makes the copies of clients in the partition `other` equal to the clients in the control partition. Ends joins that
 * the scopes no longer permit, and returns their tokens in `ended`. Skips each client that has a key of a wrong type in
 * Redis. `error` is the error of the first skipped client.
 *
 * Throws StorageFull if `other` has no memory for new copies. The copies of removed clients have been removed by then.
 * Throws StorageLost if copies are to be removed, and the control partition has lost its data.
 */
export async function repairCopies(
  control: Partition,
  other: Partition,
  signal: AbortSignal,
): Promise<{ ended: string[]; error: unknown }> {
  const ended: string[] = [];
  let error: unknown;
  const skipping = async (tokens: string[], repair: (tokens: string[]) => Promise<void>) => {
    try {
      await repair(tokens);
    } catch (thrown) {
      if (!isWrongType(thrown)) throw thrown;
      error ??= thrown;
      for (const token of tokens.length > 1 ? tokens : []) await skipping([token], repair);
    }
  };
  const copy = async (tokens: string[]) => {
    const [clients, copies] = await Promise.all([readKnown(control, tokens), readKnown(other, tokens)]);
    for (const token of tokens) {
      if (isSame(clients.get(token), copies.get(token))) continue;
      const now = (await readKnown(control, [token])).get(token);
      if (now) ended.push(...(await registerIn(other, now)).ended);
    }
  };
  // Removes copies of clients that are not in the control partition. None of these clients is new, because a new client
  // is stored in the control partition first.
  const removeOthers = async (tokens: string[]) => {
    const clients = await readKnown(control, tokens);
    for (const token of tokens) if (!clients.has(token)) await removeCopy(control, other, token);
  };
  // Removing needs no memory, so it comes first: copying fails while the Redis of `other` is full.
  for await (const tokens of tokensOf(other, signal)) await skipping(tokens, removeOthers);
  for await (const tokens of tokensOf(control, signal)) await skipping(tokens, copy);
  return { ended, error };
}

/**
 * Copies a client to the partition `other`. Resolves with false if there is no such client. Throws StorageLost if the
 * control partition loses its data meanwhile.
 */
export async function addCopy(control: Partition, other: Partition, token: string): Promise<boolean> {
  const client = (await readKnown(control, [token])).get(token);
  if (!client) return false;
  await registerIn(other, client);
  // If the client is gone now, it may have been removed from `other` before the copy was made. So the copy is removed
  // here.
  if ((await readKnown(control, [token])).has(token)) return true;
  await removeCopy(control, other, token);
  return false;
}

/**
 * Removes the copy of a client that is not in the control partition. Throws StorageLost if the control partition has
 * lost its data, as after a restart with an empty disk. It then knows no clients, but a backup may bring them back.
 * Removing the copies would delete the triggers of these clients for good.
 */
async function removeCopy(control: Partition, other: Partition, token: string): Promise<void> {
  await control.expectData();
  await other.run('remove_client', { token });
}

async function* tokensOf(partition: Partition, signal: AbortSignal): AsyncGenerator<string[]> {
  const scan = partition.scan((redis, keys, cursor) =>
    redis.hscan(keys.api_tokens(), cursor, 'COUNT', CLIENTS_PER_SCAN),
  );
  for await (const flat of scan) {
    yield pairsOf(flat).map(([token]) => token);
    if (signal.aborted) return;
  }
}

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
