import { chunksOf } from '../chunks.ts';
import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import type { Config } from '../config.ts';
import { isJoinToken, isSpareWorker } from '../ids.ts';
import type { Reply } from '../store/contracts.ts';
import { delayedCounts } from '../store/delayed_counts.ts';
import { QUEUES, type QueueName } from '../store/job.ts';
import { fullest, infoNumber, type MemoryLimits, memoryIn } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { pauserOf } from '../store/pause.ts';
import { countReplicas } from '../store/replicas.ts';
import { msOf } from '../store/replies.ts';
import { sumOf } from '../sum.ts';

/** Number of subscribers whose gauges are read in one turn of the event loop. 100 take about 2 ms. */
const SUBSCRIBERS_PER_TURN = 100;

/** A worker is dead if it was last heard of more than `leaseMs` ago. */
export type GaugeLimits = MemoryLimits & Pick<Config, 'leaseMs'>;

/**
 * The gauges of the partitions that are not away.
 *
 * - `away`: the other partitions.
 * - `memory`: the memory of the fullest Redis.
 * - `replicas`: the smallest number of replicas of a Redis.
 * - `cpuSeconds`: the CPU time of all Redises since they started. Empty if a Redis is away, because the sum would be
 *   too low.
 * - `begunAtMs`: when the bus began, or when a partition began anew after a loss of its data. Undefined if release
 *   1.0.0 began the bus, because that release stored no time.
 */
export type GaugeReading = Awaited<ReturnType<typeof readGauges>>;

/**
 * Reads all gauges. A job that changes its state meanwhile may count twice, or not at all. If another program has
 * stored another type of value under a key, the gauges that need the key are missing or undefined (`Partition.skip`).
 * Throws StorageUnavailable if all partitions are away.
 */
export async function readGauges(partitions: Partitions, limits: GaugeLimits) {
  const { found: readings, away } = await partitions.reach((one) => readPartition(one, limits.leaseMs));
  const heads = partitions.byRedis().map(([one]) => one);
  const { found: servers, away: mastersAway } = await partitions.reach(
    (one) => readServer(one, limits),
    heads,
  );
  return {
    away,
    subscribers: readings
      .flatMap(({ subscribers }) => subscribers)
      .sort((one, other) => (one.token < other.token ? -1 : 1)),
    queues: QUEUES.map((queue, index) => ({ queue, ...addUp(readings.map(({ queues }) => queues[index])) })),
    delayed: readings.flatMap(({ delayed }) => [...delayed]),
    triggers: addUp(readings.map(({ triggers }) => triggers)),
    outboxes: outboxesOf(partitions, readings),
    workers: addUp(readings.map(({ workers }) => workers)).all,
    deliveryWorkers: addUp(readings.map(({ deliveryWorkers }) => deliveryWorkers)),
    memory: fullest(servers.map(({ memory }) => memory)),
    begunAtMs: newest(readings),
    replicas: Math.min(...servers.map(({ replicas }) => replicas)),
    cpuSeconds: addUp(mastersAway.length > 0 ? [] : servers.map(({ cpuSeconds }) => cpuSeconds)),
  };
}

function newest(readings: readonly { begunAt: string | null | undefined }[]): number | undefined {
  const times = readings.flatMap(({ begunAt }) => (begunAt == null ? [] : Number(begunAt)));
  return times.length > 0 ? Math.max(...times) : undefined;
}

/** Adds up numbers with the same name. Skips what is undefined because it could not be read. */
function addUp<Name extends string>(all: readonly (Record<Name, number> | undefined)[]) {
  const sums: Partial<Record<Name, number>> = {};
  for (const each of all) for (const name in each) sums[name] = (sums[name] ?? 0) + each[name];
  return sums;
}

async function readServer(partition: Partition, limits: MemoryLimits) {
  const [memory, cpu, replicas] = await partition.command((redis) =>
    Promise.all([redis.info('memory'), redis.info('cpu'), countReplicas(redis)]),
  );
  return {
    memory: memoryIn(memory, limits),
    cpuSeconds: { system: infoNumber(cpu, 'used_cpu_sys'), user: infoNumber(cpu, 'used_cpu_user') },
    replicas,
  };
}

async function readPartition(partition: Partition, leaseMs: number) {
  const { skip } = partition;
  const [time, begunAt, heard, delivering, outboxBytes, asideBytes] = await partition.command((redis, keys) =>
    Promise.all([
      redis.time(),
      redis.get(keys.begun_at()).catch(skip),
      redis.hgetall(keys.workers()).then(mapOf, skip),
      redis.smembers(keys.workers_main()).catch(skip),
      redis.hget(keys.outboxes_sent(), 'bytes').catch(skip),
      redis.hgetall(keys.outboxes_bytes()).catch(skip),
    ]),
  );
  const nowMs = msOf(time);
  // Skips dead workers. Redis keeps them until a living worker scrubs them: for ever, if the last worker process was
  // killed.
  const live = heard && delivering?.filter((worker) => nowMs - (heard.get(worker) ?? 0) <= leaseMs);
  const spare = live?.filter(isSpareWorker).length ?? 0;
  const [subscribers, delayed, triggers, ...queues] = await Promise.all([
    readSubscribers(partition, nowMs),
    delayedCounts(partition),
    readTriggers(partition).catch(skip),
    ...QUEUES.map((queue) => readQueue(partition, queue, nowMs).catch(skip)),
  ]);
  return {
    begunAt,
    subscribers,
    delayed,
    triggers,
    queues,
    workers: heard && { all: heard.size },
    deliveryWorkers: live && { regular: live.length - spare, spare },
    outboxes: { ...asideBytes, any: outboxBytes ?? '0' },
  };
}

/**
 * Returns how many bytes wait in outboxes, the lists of entries for other partitions. If partition 3 is too slow, the
 * entries for it are set aside, and their bytes are counted under `3`. The bytes of all other entries are counted under
 * `any`. Returns nothing if the bus has only one partition.
 */
function outboxesOf(
  { all }: Partitions,
  readings: readonly { outboxes: Record<string, string> }[],
): [partition: string, bytes: number][] {
  if (all.length === 1) return [];
  return ['any', ...all.map(({ index }) => String(index))].map((name) => [
    name,
    sumOf(readings.map(({ outboxes }) => Number(outboxes[name] ?? 0))),
  ]);
}

/**
 * Counts the triggers of a partition: those that wait for their next time, and idle ones, which are paused or have no
 * further time. The due time of an idle trigger is infinity.
 */
function readTriggers(partition: Partition): Promise<{ waiting: number; idle: number }> {
  return partition.command(async (redis, keys) => {
    const due = keys.triggers_due();
    const [all, waiting] = await Promise.all([redis.zcard(due), redis.zcount(due, '-inf', '(+inf')]);
    return { waiting, idle: Math.max(0, all - waiting) };
  });
}

/** Turns an object into a map. In an object, a token such as `constructor` would find an inherited member. */
const mapOf = (hash: Record<string, string>) =>
  new Map(Object.entries(hash).map(([token, count]) => [token, Number(count)]));

/** Reads the gauges of all subscribers, including those that have left but still have batches or dead letters. */
async function readSubscribers(partition: Partition, nowMs: number) {
  const { skip } = partition;
  const [members = [], events, batches, deadEvents] = await partition.command((redis, keys) =>
    Promise.all([
      redis.smembers(keys.subscribers()).catch(skip),
      redis.hgetall(keys.gauge_events()).then(mapOf, skip),
      redis.hgetall(keys.gauge_batches()).then(mapOf, skip),
      redis.hgetall(keys.dead_letters_events()).then(mapOf, skip),
    ]),
  );
  const subscribed = new Set(members);
  const counted = [events, batches, deadEvents].flatMap((counts) => [...(counts?.keys() ?? [])]);
  const tokens = [...new Set([...members, ...counted])];
  const read = async (token: string, held: Reply<'holdings'>[number] | undefined) => {
    const [[health, pausedAt, pausedBy], oldest, deadBatches, openKeys] = await partition.command(
      (redis, keys) =>
        Promise.all([
          redis.hmget(keys.subscriber(token), 'health_points', 'paused_at', 'paused_by'),
          redis.zrange(keys.batches_queued(token), '0', '0', 'WITHSCORES'),
          redis.zcard(keys.dead_letters_of(token)),
          isJoinToken(token) ? redis.zcard(keys.open_keys_since(token)) : undefined,
        ]),
    );
    return {
      token,
      events: events && (events.get(token) ?? 0),
      batches: batches && (batches.get(token) ?? 0),
      bytes: events && held?.bytes,
      // The age of the oldest batch, by Redis's clock. It is 0 if no batch is queued.
      oldestAgeMs: oldest[1] === undefined ? 0 : Math.max(0, nowMs - Math.floor(Number(oldest[1]) / 1000)),
      deadLetters: {
        batches: deadBatches,
        events: deadEvents && (deadEvents.get(token) ?? 0),
        bytes: deadEvents && held?.deadLetterBytes,
      },
      openKeys,
      healthPoints: subscribed.has(token) ? Number(health ?? PERFECT_HEALTH) : undefined,
      pausedBy: pauserOf(pausedAt, pausedBy),
    };
  };
  const gauges: Awaited<ReturnType<typeof read>>[] = [];
  for await (const chunk of chunksOf(tokens, SUBSCRIBERS_PER_TURN)) {
    const held = await partition.run('holdings', { tokens: [...chunk] });
    const found = await Promise.all(chunk.map((token, index) => read(token, held[index]).catch(skip)));
    gauges.push(...found.filter((each) => each !== undefined));
  }
  return gauges;
}

async function readQueue(partition: Partition, queue: QueueName, nowMs: number) {
  return partition.command(async (redis, keys) => {
    const [all, instant, scheduled, due, workers] = await Promise.all([
      redis.scard(keys.jobs_index(queue)),
      redis.llen(keys.jobs_instant(queue)),
      redis.zcard(keys.jobs_scheduled(queue)),
      redis.zcount(keys.jobs_scheduled(queue), '-inf', nowMs),
      redis.smembers(keys.jobs_pending_index(queue)),
    ]);
    // A worker's list exists only while the worker holds a job, so the number of lists is the number of pending jobs.
    const lists = workers.map((worker) => keys.jobs_pending(queue, worker));
    const pending = lists.length > 0 ? await redis.exists(...lists) : 0;
    // All other jobs wait, for example because their subscriber is paused, or has its maximum of deliveries in flight.
    const waiting = Math.max(0, all - instant - scheduled - pending);
    return { instant, scheduled, due, pending, waiting };
  });
}
