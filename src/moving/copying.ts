import { slicesOf } from '../chunks.ts';
import type { FoundKey } from '../store/found_key.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { replies } from '../store/replies.ts';
import { type Copied, groupsOf } from './groups.ts';
import { type Element, type KeyReader, writing } from './key_reader.ts';
import { ROWS } from './rows.ts';
import { scanned } from './scanning.ts';
import { type Moving, partitionsOf } from './whereabouts.ts';

type Command = readonly (string | Buffer | number)[];
type Writes = Map<Partition, Command[]>;

/** Number of clients whose delayed events a script call adds up. */
const CLIENTS_PER_CALL = 300;

/**
 * Copies the keys of a bus with one partition into a bus with several. Yields several times: each time the number of
 * keys that were done since the last time. After an interrupted move, the next run copies all keys again, which does no
 * harm.
 */
export async function* copyKeys(moving: Moving): AsyncGenerator<number> {
  const { source, target } = moving;
  const delaying = new Set<string>();
  for await (const keys of scanned([source])) {
    const copied = keys.filter(({ name }) => !('stays' in ROWS[name]));
    for (const { name, parts } of copied) if (name === 'delayed_held') delaying.add(parts[0] ?? '');
    for await (const group of groupsOf(source, copied)) await copyGroup(moving, group);
    yield keys.length;
  }
  await addUp(target, [...delaying]);
}

/**
 * Stores totals in each partition: the number of records in all delivery logs and, for each of `clients`, the number of
 * its delayed events and the sum of their bytes.
 */
async function addUp({ all }: Partitions, clients: readonly string[]): Promise<void> {
  for (const partition of all) {
    for (const tokens of slicesOf(clients, CLIENTS_PER_CALL))
      await partition.run('sweep_delayed_held', { tokens });
    await partition.run('sweep_deliveries', { names: [] });
  }
}

async function copyGroup(moving: Moving, group: readonly Copied[]): Promise<void> {
  const { source } = moving;
  const places = await Promise.all(group.map(({ reader }) => placesOf(moving, reader)));
  await send(clearing(moving, group, places));
  let left = group.map((copied, index) => ({ ...copied, places: places[index] }));
  while (left.length > 0) {
    const pieces = await source.command((redis) =>
      Promise.all(left.map(({ reader: { command } }) => redis.callBuffer(...command))),
    );
    const writes: Writes = new Map();
    for (const [index, { reader, expiresMs, places }] of left.entries()) {
      const { type, found } = reader;
      const shares = await sharesOf(moving, found, reader.take(pieces[index]), places);
      for (const [partition, elements] of shares) {
        if (elements.length === 0) continue;
        const key = nameIn(partition, source, found);
        for (const command of expiring(type, key, writing(type, key, elements), expiresMs))
          add(writes, partition, command);
      }
    }
    await send(writes);
    left = left.filter(({ reader }) => !reader.isDone);
  }
}

/**
 * Returns the partitions of the target that get a copy of the whole key. Undefined if the elements of the key are
 * divided among the partitions, for example by subscriber.
 */
async function placesOf(
  moving: Moving,
  { found: { name, parts } }: KeyReader,
): Promise<readonly Partition[] | undefined> {
  const row = ROWS[name];
  return 'whole' in row ? partitionsOf(moving, row.whole(...parts)) : undefined;
}

/**
 * Returns commands that delete lists and streams in the target before they are copied. Otherwise a second copy, for
 * example by a second run, would append all elements again.
 */
function clearing(
  { source, target }: Moving,
  group: readonly Copied[],
  places: readonly (readonly Partition[] | undefined)[],
): Writes {
  const writes: Writes = new Map();
  for (const [index, { reader }] of group.entries())
    if (reader.type === 'list' || reader.type === 'stream')
      for (const partition of places[index] ?? target.all)
        add(writes, partition, ['UNLINK', nameIn(partition, source, reader.found)]);
  return writes;
}

/**
 * Decides which partition gets which elements of a key. If `whole` is given, each partition in `whole` gets all
 * elements. Otherwise the rule in ROWS divides the elements: for example, an element about a subscriber goes to the
 * subscriber's partition.
 */
async function sharesOf(
  moving: Moving,
  { name, parts }: FoundKey,
  elements: Element[],
  whole: readonly Partition[] | undefined,
): Promise<Map<Partition, Element[]>> {
  if (whole) return new Map(whole.map((partition) => [partition, elements]));
  const row = ROWS[name];
  const shares = new Map<Partition, Element[]>();
  if (!('split' in row)) return shares;
  const owners = elements.map(([first, second]) =>
    row.split([first.toString(), second?.toString() ?? ''], parts, first),
  );
  const places = await Promise.all(owners.map((owner) => partitionsOf(moving, owner)));
  for (const [index, its] of places.entries())
    for (const partition of its) {
      const share = shares.get(partition) ?? [];
      shares.set(partition, share);
      share.push(elements[index] as Element);
    }
  return shares;
}

async function send(writes: Writes): Promise<void> {
  for (const [partition, commands] of writes)
    await partition.command(async (redis) => {
      const pipeline = redis.pipeline();
      for (const [verb, ...args] of commands) pipeline.call(String(verb), ...args);
      // The reply to EXEC is itself a list of replies, one of which may be an error. `flat` takes them out of this
      // list, so that `find` sees the error.
      const failed = (await replies(pipeline)).flat().find((reply) => reply instanceof Error);
      if (failed) throw failed;
    });
}

function nameIn({ prefix }: Partition, source: Partition, { key }: FoundKey): string {
  return prefix + key.slice(source.prefix.length);
}

function add(writes: Writes, partition: Partition, command: Command): void {
  const commands = writes.get(partition) ?? [];
  writes.set(partition, commands);
  commands.push(command);
}

/**
 * Adds the expiry of a key (ms since 1970; negative for none) to the `commands` that write the key, so that Redis does
 * both in one step. With two steps, a move that stopped between them would leave a copy that never expires. For
 * example, a former secret would stay valid.
 */
function expiring(type: string, key: string, commands: Command[], expiresMs: number): Command[] {
  if (expiresMs < 0) return commands;
  // Write a string by one command instead of four (MULTI, SET, PEXPIREAT, EXEC): a bus may have a million idempotency
  // keys, and each is copied to every partition.
  if (type === 'string') return commands.map((command) => [...command, 'PXAT', expiresMs]);
  return [['MULTI'], ...commands, ['PEXPIREAT', key, expiresMs], ['EXEC']];
}
