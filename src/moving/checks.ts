import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { checkServer, SCHEMA } from '../maintenance/schema.ts';
import { keyspace } from '../store/keys.ts';
import { infoField } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import { COUNT_KEY } from '../store/partition_count.ts';
import type { Partitions } from '../store/partitions.ts';
import { countProcesses, livingWorkers } from '../store/presence.ts';
import { RedisCluster } from '../store/redis_cluster.ts';
import { scanned } from './scanning.ts';
import type { Side } from './side.ts';
import type { StoredMove } from './stored_move.ts';

/**
 * Throws BootError unless the source of the move has a stopped bus with one partition and the layout of this release.
 */
export async function checkSource(side: Side, leaseMs: number): Promise<void> {
  const { control: source } = side.partitions;
  const schema = await source.command((redis, keys) => redis.get(keys.schema()));
  const count = await readCount(side);
  if (count !== undefined && count !== '1' && schema === null)
    throw new BootError(`The bus to move has ${count} partitions; only a bus with one can be moved.`);
  if (schema === null)
    throw new BootError('There is no bus to move: look at --from and --from-prefix, or run the bus once.');
  if (Number(schema) !== SCHEMA)
    throw new BootError(
      `The bus to move has layout ${schema}, and this release has layout ${SCHEMA}. ` +
        'Run the release with which the bus was last used, or start the bus with this one first.',
    );
  await refuseRunning(source, leaseMs);
}

/**
 * Throws BootError if processes of the bus run. Also throws it if a worker gave a sign of life less than `leaseMs` ago,
 * because a worker that only hangs may go on later.
 */
async function refuseRunning(source: Partition, leaseMs: number): Promise<void> {
  const running = await runningProcesses(source);
  if (running)
    throw new BootError(
      `${running} of the bus are alive. Stop all web and worker processes, and try again. ` +
        'Processes of a bus with the same prefix in another database of this Redis count too.',
    );
  const { count } = await livingWorkers(source, leaseMs);
  if (count > 0)
    throw new BootError(
      `${count} workers of the bus run, or died less than ${leaseMs / 1000} s ago. ` +
        'Stop all web and worker processes, and try again.',
    );
}

/**
 * Says how many processes live: `1 web and 0 worker processes`. Undefined if there is none, or if the ACL hides them.
 */
export async function runningProcesses(source: Partition): Promise<string | undefined> {
  const { web, worker } = (await countProcesses(source)) ?? { web: 0, worker: 0 };
  return web + worker > 0 ? `${web} web and ${worker} worker processes` : undefined;
}

/**
 * Returns the addresses of connections that look like those of web processes: their last command was a script call or
 * WAIT, which web processes often send. No web process may run during a move.
 */
export async function scriptCallers({ control }: Partitions): Promise<string[]> {
  const others = await otherConnections(control);
  return others.flatMap(({ addr = '', cmd = '' }) =>
    /^(?:fcall|evalsha|eval|wait)$/.test(cmd) ? [addr] : [],
  );
}

/**
 * Throws BootError if another run of bin/move moves the same bus, because two runs would delete and overwrite each
 * other's copies. Names this connection, so that other runs find it, and are refused until it is closed.
 *
 * Does not see another run if the ACL forbids CLIENT LIST or CLIENT SETNAME.
 */
export async function refuseSecondRun({
  partitions: { control: source },
  redis: connection,
}: Side): Promise<void> {
  const name = `move:${encodeURIComponent(source.keys.move())}`;
  // ioredis gives this name to connections that it opens later, when it has to reconnect. The present connection gets
  // the name by SETNAME below.
  if (connection instanceof RedisCluster) await connection.nameConnections(name);
  else connection.options.connectionName = name;
  // The name is set before the connections are listed. So if two runs begin at the same moment, at least one of them
  // sees the other, and stops.
  await source.command((redis) => redis.client('SETNAME', name)).catch(() => {});
  const runs = (await otherConnections(source)).filter(
    (each) => each.name === name && each.db === String(source.redis.options.db ?? 0),
  );
  if (runs.length > 0)
    throw new BootError(
      `Another bin/move of this bus runs, with a connection from ${runs.map(({ addr }) => addr).join(', ')}. ` +
        'Wait until it ends, or end it.',
    );
}

/** Returns what CLIENT LIST says of each connection but our own. Empty if it fails, perhaps because of the ACL. */
async function otherConnections(source: Partition): Promise<Partial<Record<string, string>>[]> {
  const all = source.command(async (redis) => ({
    own: await redis.client('ID'),
    list: String(await redis.client('LIST')),
  }));
  const { own, list } = await all.catch(() => ({ own: 0, list: '' }));
  return list
    .split('\n')
    .filter(Boolean)
    .map((line) => Object.fromEntries(line.split(' ').map((each) => each.split('=', 2))))
    .filter(({ id }) => Number(id) !== own);
}

/**
 * Throws BootError unless the target can hold a bus and is empty, so that a move never mixes the data of two buses.
 * Data from an earlier run of the same move is no error.
 */
export async function checkTarget(source: Side, target: Side, stored: StoredMove, log: Log): Promise<void> {
  for (const [partition] of target.partitions.byRedis()) await checkServer(partition, log);
  const count = await readCount(target);
  if (count === fillingText(stored)) return;
  if (count !== undefined)
    throw new BootError(
      /^\d+$/.test(count)
        ? `The target has a bus already, with ${count} partitions. Choose another --to-prefix.`
        : 'Another move has begun to fill the target. Empty it, or choose another --to-prefix.',
    );
  if ((await hasPlainBus(target)) && !(await isSame(source, target)))
    throw new BootError('The target has a bus already, with one partition. Choose another --to-prefix.');
  for (const partitions of target.partitions.byRedis())
    if (await hasKeys(partitions))
      throw new BootError('The target has data of a bus already. Empty it, or choose another --to-prefix.');
}

async function hasKeys(partitions: readonly [Partition, ...Partition[]]): Promise<boolean> {
  for await (const keys of scanned(partitions)) if (keys.length > 0) return true;
  return false;
}

/** True if the target has a bus with one partition. The keys of such a bus have no hash tag behind the prefix. */
async function hasPlainBus({ partitions, prefix }: Side): Promise<boolean> {
  const key = keyspace(prefix).schema();
  return (await partitions.control.master.forKey(key).call((redis) => redis.exists(key))) === 1;
}

async function isSame(source: Side, target: Side): Promise<boolean> {
  const isSameRedis = (await runIdOf(source.partitions)) === (await runIdOf(target.partitions));
  const [one, other] = [source.partitions.control.redis.options, target.partitions.control.redis.options];
  return isSameRedis && source.prefix === target.prefix && (one.db ?? 0) === (other.db ?? 0);
}

/**
 * Returns the value of the target's key `partitions` during the move. A process that starts on the target expects a
 * number there, and refuses this text.
 */
export function fillingText({ id, partitions }: StoredMove): string {
  return `${partitions}, being filled by the move ${id}`;
}

export async function storeCount({ partitions, prefix }: Side, value: string): Promise<void> {
  const key = prefix + COUNT_KEY;
  await partitions.control.master.forKey(key).call((redis) => redis.set(key, value));
}

/**
 * Returns the value of the key `partitions`: the number of partitions or, during a move, the text that keeps processes
 * from starting (`fillingText`). Returns undefined if there is no such key.
 */
export async function readCount({ partitions, prefix }: Side): Promise<string | undefined> {
  const key = prefix + COUNT_KEY;
  return (await partitions.control.master.forKey(key).call((redis) => redis.get(key))) ?? undefined;
}

/** Returns the `run_id` of Redis. If two connections get the same id, they lead to the same Redis. */
async function runIdOf({ control: source }: Partitions): Promise<string> {
  return infoField(await source.command((redis) => redis.info('server')), 'run_id') ?? '';
}
