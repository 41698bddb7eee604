import { Backoff } from '../backoff.ts';
import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { BootError, isPassing, isRefusal, replyBehind } from '../errors.ts';
import type { Log } from '../log.ts';
import { prepareStorage, takenOverAtMs } from '../maintenance/schema.ts';
import { requireData } from '../maintenance/storage_watch.ts';
import { refuseMoved } from '../moving/stored_move.ts';
import type { Compatibility } from '../routing/dialect.ts';
import { connect } from '../store/connection.ts';
import type { ProcessType } from '../store/keys.ts';
import type { Listener } from '../store/listener.ts';
import type { Partition } from '../store/partition.ts';
import { checkPartitionCount, fixPartitionCount } from '../store/partition_count.ts';
import { Partitions } from '../store/partitions.ts';
import { showPresence } from '../store/presence.ts';
import { throwForOperator } from '../store/refusal.ts';
import { msOf } from '../store/replies.ts';
import { endWith } from './lifecycle.ts';

interface Booted {
  /**
   * The configured compatibility mode. The default is `routemaster` after a takeover from a Ruby Routemaster, otherwise
   * `none`.
   */
  compatibility: Compatibility;
  /** When the bus took over from a Ruby Routemaster (ms). Undefined if it did not. */
  takenOver: number | undefined;
}

export const BEGINS =
  'Redis has no bus yet: a new one begins. At the first start that is right. Otherwise stop the bus and restore a ' +
  'backup of Redis, or correct ROUTEMASTER_REDIS_URL or ROUTEMASTER_REDIS_PREFIX.';

/** If the clocks of this host and of Redis differ by more than this, the process logs a warning. */
const MAX_SKEW_MS = 10_000;
const CLOCKS_DISAGREE =
  'The clocks of this host and of Redis disagree: run NTP on both. The times of log lines are those of this host, ' +
  'all other times those of Redis. Receivers refuse signatures if Redis is more than 300 s off.';

/**
 * Prepares Redis for the bus, and tries again while Redis is away or full, or lacks the data that
 * ROUTEMASTER_REQUIRE_DATA requires.
 */
export async function boot(partitions: Partitions, config: Config, log: Log): Promise<Booted> {
  const backoff = new Backoff();
  let toldReason: string | undefined;
  let hasBegun = false;
  for (;;) {
    try {
      await refuseMoved(partitions.control);
      if (config.requireData) {
        // The number of partitions is checked before the data. With a wrong number, the bus would look for data in the
        // wrong partitions, and report the data as lost.
        await checkPartitionCount(partitions.control, config);
        await requireData(partitions.all, log);
      }
      await fixPartitionCount(partitions.control, config);
      for (const partition of partitions.all) {
        const others = partitions.all.filter((each) => each !== partition);
        const isNew = await prepareStorage(partition, config.leaseMs, log, others);
        if (isNew && !hasBegun) log.warn({ redis: partition.master.name }, BEGINS);
        hasBegun ||= isNew;
      }
      // With `minReplicas`, each publish uses the command WAIT. If the ACL of Redis forbids WAIT, the start fails here.
      // For 0 replicas, WAIT returns at once.
      if (config.minReplicas > 0) await partitions.control.command((redis) => redis.wait(0, 1));
      await compareClocks(partitions.control, log);
      const takenOver = await takenOverAtMs(partitions.control);
      const assumed = takenOver === undefined ? 'none' : 'routemaster';
      return { compatibility: config.compatibility ?? assumed, takenOver };
    } catch (error) {
      if (!isPassing(error)) return await throwForOperator(partitions.all, error);
      const reply = replyBehind(error);
      // Only error replies from Redis are logged here. The connection itself logs other errors, such as a lost
      // connection.
      if (reply && !isRefusal(reply) && reply.message !== toldReason) {
        toldReason = reply.message;
        log.warn({ reason: toldReason }, 'Redis refuses commands; trying again');
      }
      await backoff.wait();
    }
  }
}

async function compareClocks(control: Partition, log: Log): Promise<void> {
  const redisMs = msOf(await control.command((redis) => redis.time()));
  const aheadMs = clock.wallMs() - redisMs;
  if (Math.abs(aheadMs) > MAX_SKEW_MS) log.warn({ redis: control.master.name, aheadMs }, CLOCKS_DISAGREE);
}

/**
 * Makes this process count as alive until the returned function is called. Ends the process if the bus was moved.
 *
 * After `bin/move` has copied the bus, it fails if any process counts as alive. But a process that is still starting,
 * or is cut off from Redis, does not count. So whenever a process begins to count, it checks whether the bus was moved.
 * Otherwise it would accept events that are not in the copy.
 */
export function showUnlessMoved(listener: Listener, control: Partition, type: ProcessType): () => void {
  return showPresence(listener, control.keys, type, () => void endIfMoved(control));
}

/**
 * Ends the process if `bin/move` has moved the bus. Tries again while Redis is away, and ignores other errors.
 */
async function endIfMoved(control: Partition): Promise<void> {
  const backoff = new Backoff();
  for (;;) {
    try {
      return await refuseMoved(control);
    } catch (error) {
      if (error instanceof BootError) return await endWith(error);
      if (!isPassing(error)) return;
      await backoff.wait();
    }
  }
}

/** Returns a connection to Redis, and partitions that use it. */
export function openPartitions(config: Config, log: Log, minReplicas = 0) {
  const { redisUrl, redisTls, redisPrefix: prefix, partitions } = config;
  const redis = connect(redisUrl, log, redisTls);
  return { redis, partitions: Partitions.on(redis, { prefix, partitions, log, minReplicas }) };
}

/**
 * Returns a second connection to Redis, and partitions that use it. A script call on these partitions resolves only
 * when ROUTEMASTER_MIN_REPLICAS replicas have confirmed its writes. On the first connection, this waiting would delay
 * all other commands. Returns undefined if the setting is 0.
 */
export function confirmedPartitions(config: Config, log: Log) {
  return config.minReplicas === 0 ? undefined : openPartitions(config, log, config.minReplicas);
}
