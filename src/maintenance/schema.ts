import { pause } from '../clock.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

/** The version of the data layout that this code writes. */
const SCHEMA = 2;
const OLDEST_REDIS = 7;
const SLICE = 200;
/** How often a boot looks whether the workers of the former release are gone. */
const LOOK_EVERY_MS = 500;

/**
 * Makes sure that this Redis can be used, and upgrades its data to our layout. Any number of processes may do so at once.
 * Waits while workers of the former release run: one is alive until `leaseMs` after it was last heard of.
 * Throws BootError where a person has to act, StorageUnavailable where waiting may help.
 */
export async function prepareStorage(store: Partition, leaseMs: number, log: Log): Promise<void> {
  await checkServer(store, log);
  await store.prepare();
  const found = await store.command((redis, keys) => redis.get(keys.schema()));
  if (found !== null && Number(found) > SCHEMA) {
    const advice = `this release knows layout ${SCHEMA}. Run the release that wrote it, or a newer one.`;
    throw new BootError(`The data in Redis has layout ${found}; ${advice}`);
  }
  if (found === null) {
    await takeOver(store, log);
    await store.run('adopt', { layout: SCHEMA });
  } else if (Number(found) < SCHEMA) {
    await upgrade(store, found, leaseMs, log);
  }
}

/** Layout 1 differs in how events are stored. Those that are queued stay as they are: the worker decodes them. */
async function upgrade(store: Partition, from: string, leaseMs: number, log: Log): Promise<void> {
  const countAlive = () => store.run('upgrade', { from: Number(from), to: SCHEMA, leaseMs });
  let alive = await countAlive();
  if (alive > 0)
    log.warn({ workers: alive }, 'waiting until the workers of the former release are gone: stop them');
  while (alive > 0) {
    await pause(LOOK_EVERY_MS);
    alive = await countAlive();
  }
  log.info({ from: Number(from), to: SCHEMA }, 'upgraded the data in Redis');
}

async function checkServer(store: Partition, log: Log): Promise<void> {
  const info = await store.command((redis) => redis.info());
  const field = (name: string) => new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim();
  const version = field('redis_version') ?? 'unknown';
  if (Number.parseInt(version, 10) < OLDEST_REDIS) {
    throw new BootError(`Redis ${version} is too old: Redis ${OLDEST_REDIS} or later, or Valkey, is needed.`);
  }
  const policy = field('maxmemory_policy');
  if (policy === undefined) log.warn('Redis does not say its maxmemory-policy; it must be noeviction');
  else if (policy !== 'noeviction') {
    const advice = 'Set maxmemory-policy to noeviction in its configuration.';
    throw new BootError(
      `Redis has maxmemory-policy ${policy}, so it would silently delete events. ${advice}`,
    );
  }
}

/** Takes over the batches of a Ruby Routemaster, if there are any. Our tickers make its aux jobs anew. */
async function takeOver(store: Partition, log: Log): Promise<void> {
  const total = await store.command((redis, keys) => redis.zcard(keys.batches_index()));
  if (total > 0) log.info({ batches: total }, 'taking over batches from the Ruby Routemaster');
  let renamed = 0;
  let cursor = '0';
  do {
    const [next, members] = await store.command((redis, keys) =>
      redis.zscan(keys.batches_index(), cursor, 'COUNT', SLICE),
    );
    cursor = next;
    const bids = members.filter((_, index) => index % 2 === 0);
    if (bids.length > 0) renamed += await store.run('takeover', { bids });
  } while (cursor !== '0');
  if (total > 0) log.info({ renamed }, 'took over from the Ruby Routemaster');
}
