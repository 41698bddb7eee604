import { sleep } from '../clock.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { infoField } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';

/** The version of the data layout that this code writes. */
const SCHEMA = 2;
const OLDEST_REDIS = 7;
const SLICE = 200;
/** Interval at which a boot checks whether workers of the former release still run. */
const LOOK_EVERY_MS = 500;

/**
 * Checks that the bus can use this Redis, and upgrades its data to the current layout. Several processes may
 * do so at once. Waits until no worker of the former release has renewed its lease for `leaseMs`. Throws
 * BootError if a person must act, and StorageUnavailable if waiting may help.
 */
export async function prepareStorage(partition: Partition, leaseMs: number, log: Log): Promise<void> {
  await checkServer(partition, log);
  await partition.prepare();
  const found = await partition.command((redis, keys) => redis.get(keys.schema()));
  if (found !== null && Number(found) > SCHEMA) {
    const advice = `this release knows layout ${SCHEMA}. Run the release that wrote it, or a newer one.`;
    throw new BootError(`The data in Redis has layout ${found}; ${advice}`);
  }
  if (found === null) {
    await takeOver(partition, log);
    await partition.run('adopt', { layout: SCHEMA });
  } else if (Number(found) < SCHEMA) {
    await upgrade(partition, found, leaseMs, log);
  }
}

/** True if the bus took this Redis over from the Ruby Routemaster. Buses that did so before this was noted are not known. */
export async function wasTakenOver(partition: Partition): Promise<boolean> {
  return (await partition.command((redis, keys) => redis.exists(keys.taken_over()))) === 1;
}

/** Layout 1 stores events in another form, which workers can decode. So queued events are not changed. */
async function upgrade(partition: Partition, from: string, leaseMs: number, log: Log): Promise<void> {
  const countAlive = () => partition.run('upgrade', { from: Number(from), to: SCHEMA, leaseMs });
  let alive = await countAlive();
  if (alive > 0)
    log.warn({ workers: alive }, 'waiting until the workers of the former release are gone: stop them');
  while (alive > 0) {
    await sleep(LOOK_EVERY_MS);
    alive = await countAlive();
  }
  log.info({ from: Number(from), to: SCHEMA }, 'upgraded the data in Redis');
}

async function checkServer(partition: Partition, log: Log): Promise<void> {
  const info = await partition.command((redis) => redis.info());
  const version = infoField(info, 'redis_version') ?? 'unknown';
  if (Number.parseInt(version, 10) < OLDEST_REDIS) {
    throw new BootError(`Redis ${version} is too old: Redis ${OLDEST_REDIS} or later, or Valkey, is needed.`);
  }
  const policy = infoField(info, 'maxmemory_policy');
  if (policy === undefined) log.warn('Redis does not say its maxmemory-policy; it must be noeviction');
  else if (policy !== 'noeviction') {
    const problem = `Redis has maxmemory-policy ${policy}, so it would silently delete events.`;
    throw new BootError(`${problem} Set maxmemory-policy to noeviction in its configuration.`);
  }
}

/** Converts the batches of a Ruby Routemaster, if any. Tickers queue new `aux` jobs instead of its own. */
async function takeOver(partition: Partition, log: Log): Promise<void> {
  const total = await partition.command((redis, keys) => redis.zcard(keys.batches_index()));
  if (total > 0) log.info({ batches: total }, 'taking over batches from the Ruby Routemaster');
  let renamed = 0;
  let cursor = '0';
  do {
    const [next, members] = await partition.command((redis, keys) =>
      redis.zscan(keys.batches_index(), cursor, 'COUNT', SLICE),
    );
    cursor = next;
    const bids = members.filter((_, index) => index % 2 === 0);
    if (bids.length > 0) renamed += await partition.run('takeover', { bids });
  } while (cursor !== '0');
  if (total > 0) log.info({ renamed }, 'took over from the Ruby Routemaster');
}
