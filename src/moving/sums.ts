import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { pairsOf } from '../store/replies.ts';

type Summed = Map<Partition, Map<string, number>>;

/**
 * Computes a hash of totals for each new partition. The hash of `source` (the old partition) cannot be copied, because
 * the data that it sums up is divided among the new partitions. `of` is the token of a client if the totals are about
 * one client, otherwise empty.
 */
export type Sums = (source: Partition, partitions: Partitions, of: string) => Promise<Summed>;

/** The two fields of `delayed:held:{token}` that have totals. All its other fields are names of topics. */
const [EVENTS, BYTES] = [':events', ':bytes'];
const LOGS_PER_SCAN = 1000;

/**
 * Computes `delayed:held:{token}`, about one client's delayed events: their bytes by topic, all their bytes, and their
 * number.
 */
export const delayedSums: Sums = async (source, partitions, client) => {
  const summed: Summed = new Map();
  const held = await source.command((redis, keys) => redis.hgetall(keys.delayed_held(client)));
  const topics = Object.keys(held).filter((field) => field !== EVENTS && field !== BYTES);
  const events = await source.command((redis, keys) =>
    Promise.all(topics.map((topic) => redis.zcard(keys.delayed_due(topic)))),
  );
  for (const [index, topic] of topics.entries()) {
    const home = partitions.ofTopic(topic);
    add(summed, home, topic, Number(held[topic]));
    add(summed, home, BYTES, Number(held[topic]));
    add(summed, home, EVENTS, events[index] ?? 0);
  }
  return summed;
};

/** Computes `deliveries:total`: the number of records in all delivery logs of a partition. */
export const recordSums: Sums = async (source, partitions) => {
  const summed: Summed = new Map();
  // A scan may return a log twice.
  const logs = new Map<string, number>();
  const scan = source.scan((redis, keys, cursor) =>
    redis.zscan(keys.deliveries_logs(), cursor, 'COUNT', LOGS_PER_SCAN),
  );
  for await (const flat of scan) for (const [log, records] of pairsOf(flat)) logs.set(log, Number(records));
  for (const [log, records] of logs)
    add(summed, partitions.ofSubscriber(log.slice(log.indexOf(' ') + 1)), 'records', records);
  return summed;
};

/** Returns the topic to which a trigger publishes. It is the second line of the trigger's definition. */
export function topicOfDefinition(definition: string): string {
  return definition.split('\n', 2)[1] ?? '';
}

function add(summed: Summed, partition: Partition, field: string, by: number): void {
  const fields = summed.get(partition) ?? new Map<string, number>();
  summed.set(partition, fields);
  fields.set(field, (fields.get(field) ?? 0) + by);
}
