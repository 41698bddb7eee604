import { atMostEvery, sleep } from '../clock.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { infoField, wrongPolicyIn } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import { pairsOf } from '../store/replies.ts';

/** The version of the data layout that this code writes. */
export const SCHEMA = 2;
const OLDEST_REDIS = 7;
const BATCHES_PER_SCAN = 200;
/** Interval at which a starting process checks whether workers of the previous release still run. */
const CHECK_EVERY_MS = 500;
/** Interval at which a long takeover of a Ruby Routemaster's Redis logs its progress. */
const TELL_EVERY_MS = 2000;

const FORGOTTEN =
  'Redis has forgotten what it sent to the other partitions: was it emptied, or was an old backup restored?';

/**
 * Checks that the bus can use this Redis. Upgrades its data, or takes over the data of a Ruby Routemaster. An upgrade
 * waits until no worker of the previous release has renewed its lease for `leaseMs`. `others` are the other partitions
 * of the bus. Returns true only if this call has prepared an empty partition for a new bus. Several processes may call
 * this at the same time. Throws BootError if a person must act, and StorageUnavailable if a later call may succeed.
 */
export async function prepareStorage(
  partition: Partition,
  leaseMs: number,
  log: Log,
  others: readonly Partition[] = [],
): Promise<boolean> {
  await checkServer(partition, log);
  await partition.prepare();
  await tryScripts(partition);
  const found = await partition.command((redis, keys) => redis.get(keys.schema()));
  // If another program has stored text here, Number(found) is NaN. `!(NaN <= SCHEMA)` is true, so NaN is refused too.
  if (found !== null && !(Number(found) <= SCHEMA)) {
    const advice = `this release knows layout ${SCHEMA}. Run the release that wrote it, or a newer one.`;
    throw new BootError(`The data in Redis has layout ${found}; ${advice}`);
  }
  await continueOutbox(partition, others, log);
  if (found === null) {
    await refuseBesideRubyWorkers(partition, leaseMs);
    const renamed = await takeOver(partition, log);
    const isFirst = await partition.run('adopt', { layout: SCHEMA });
    const isOfRuby = renamed > 0 || (await takenOverAtMs(partition)) !== undefined;
    if (isOfRuby) log.info({ renamed }, 'took over from the Ruby Routemaster');
    return isFirst && !isOfRuby;
  }
  if (Number(found) < SCHEMA) await upgrade(partition, found, leaseMs, log);
  return false;
}

/**
 * Returns when this bus took over the Redis of a Ruby bus, in ms by Redis's clock. Undefined if it did not take over,
 * or if the takeover was by an old release, which did not record the time.
 */
export async function takenOverAtMs(partition: Partition): Promise<number | undefined> {
  const at = await partition.command((redis, keys) => redis.get(keys.taken_over()));
  return at === null ? undefined : Number(at);
}

/**
 * Ensures that new outbox entries of `partition` get higher numbers than those that `others` have applied already. The
 * others would ignore an entry with a lower number. This matters if the Redis of `partition` has lost the number of its
 * last entry. Call this before the script `adopt`: after that script, other processes may accept events.
 */
async function continueOutbox(partition: Partition, others: readonly Partition[], log: Log): Promise<void> {
  const applied = await Promise.all(
    others.map((each) =>
      each
        .command((redis, keys) => redis.hget(keys.outboxes_applied(), String(partition.index)))
        .catch(each.skip),
    ),
  );
  const highest = Math.max(0, ...applied.map((number) => Number(number ?? 0)));
  if (highest > 0 && (await partition.run('continue_outbox', { applied: highest })))
    log.warn({ redis: partition.master.name }, FORGOTTEN);
}

/** Throws if a Ruby worker is alive. It would take jobs of this bus, find no batches for them, and lose the jobs. */
async function refuseBesideRubyWorkers(partition: Partition, leaseMs: number): Promise<void> {
  const { workers, silentMs = 0 } = await partition.run('ruby_workers', { leaseMs });
  if (workers === 0) return;
  throw new BootError(
    `${workers} workers of the Ruby Routemaster use this Redis; the last was heard of ${seconds(silentMs)} s ago. ` +
      `Stop them all, and start this bus when they have been silent for ${seconds(leaseMs)} s. ` +
      'Nothing was changed; Ruby web processes may go on until then. docs/migrating.md has all steps.',
  );
}

function seconds(ms: number): number {
  return Math.round(ms / 1000);
}

/**
 * Waits until the workers of the previous release are gone, and then replaces the layout version `from` by SCHEMA.
 * Events that layout 1 stored in another form stay as they are, because workers can decode them.
 */
async function upgrade(partition: Partition, from: string, leaseMs: number, log: Log): Promise<void> {
  const countAlive = () => partition.run('upgrade', { from: Number(from), to: SCHEMA, leaseMs });
  let alive = await countAlive();
  if (alive > 0)
    log.warn({ workers: alive }, 'waiting until the workers of the former release are gone: stop them');
  while (alive > 0) {
    await sleep(CHECK_EVERY_MS);
    alive = await countAlive();
  }
  log.info({ from: Number(from), to: SCHEMA }, 'upgraded the data in Redis');
}

/** Throws BootError if Redis is too old, or if its `maxmemory-policy` lets it delete events. */
export async function checkServer(partition: Partition, log: Log): Promise<void> {
  const info = await partition.command((redis) => redis.info());
  const version = infoField(info, 'redis_version') ?? 'unknown';
  if (Number.parseInt(version, 10) < OLDEST_REDIS) {
    throw new BootError(`Redis ${version} is too old: Redis ${OLDEST_REDIS} or later, or Valkey, is needed.`);
  }
  if (infoField(info, 'maxmemory_policy') === undefined)
    log.warn('Redis does not say its maxmemory-policy; it must be noeviction');
  const problem = policyProblem(info);
  if (problem !== undefined) throw new BootError(problem);
}

/** Says what is wrong with the `maxmemory-policy` in the INFO text. Undefined if it is right, or not known. */
export function policyProblem(info: string): string | undefined {
  const policy = wrongPolicyIn(info);
  if (policy === undefined) return undefined;
  const problem = `Redis has maxmemory-policy ${policy}, so it would silently delete events.`;
  return `${problem} Set maxmemory-policy to noeviction in its configuration.`;
}

/** Throws BootError if the server cannot run the scripts: some servers resemble Redis, but lack what scripts need. */
async function tryScripts(partition: Partition): Promise<void> {
  const advice =
    'docs/scale.md says which servers the bus can use, and docs/operating.md which ACL it needs.';
  const { command, error } = await partition.run('try_commands', {}).catch((cause: Error) => {
    if (cause.name !== 'ReplyError') throw cause;
    throw new BootError(`This server cannot run the bus's scripts: ${cause.message}. ${advice}`, { cause });
  });
  if (command === undefined) return;
  throw new BootError(`This server does not let scripts use ${command}: ${error}. ${advice}`);
}

/** Converts the batches of a Ruby Routemaster to the layout of this bus. Returns the number of converted batches. */
async function takeOver(partition: Partition, log: Log): Promise<number> {
  const total = await partition.command((redis, keys) => redis.zcard(keys.batches_index()));
  if (total > 0) log.info({ batches: total }, 'taking over batches from the Ruby Routemaster');
  let renamed = 0;
  const tell = atMostEvery(TELL_EVERY_MS, () => log.info({ renamed, batches: total }, 'taking over'));
  const scan = partition.scan((redis, keys, cursor) =>
    redis.zscan(keys.batches_index(), cursor, 'COUNT', BATCHES_PER_SCAN),
  );
  for await (const members of scan) {
    const names = pairsOf(members).map(([bid]) => bid);
    const found = await partition.run('sweep_batches', { where: 'ruby_batch', names });
    renamed += found.filter(({ kind }) => kind === 'batch_of_ruby').length;
    // Removes the entries of `batches:index` whose batches do not exist.
    await partition.run('sweep_batches', { where: 'batches_index', names });
    tell();
  }
  return renamed;
}
