import type { Arguments, Reply } from '../store/contracts.ts';
import { delayedCounts } from '../store/delayed_counts.ts';
import { type MemoryLimits, staysAbove } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import { bytesOf, fairLosses, firstDropOrders, withoutDropped } from './fair_share.ts';

/** Maximum events and topics of one script call. Dropping 500 events of 100 topics together takes Redis about 3 ms. */
const MAX_DROPPED = 500;
const MAX_TOPICS = 100;

/** How many delayed events a topic has, and how many bytes they take. `client` owns the topic. */
export interface DelayedHolding {
  topic: string;
  client: string;
  events: number;
  bytes: number;
}

type DelayedDropOrder = Arguments<'drop_delayed'>['orders'][number];
type DelayedDrop = Reply<'drop_delayed'>[number];

/** Returns, for each topic with delayed events, how many it has, and how many bytes they take. */
export async function delayedHoldings(partition: Partition): Promise<DelayedHolding[]> {
  const counts = await delayedCounts(partition);
  const holdings: DelayedHolding[] = [];
  for (const [topic, events] of counts) {
    const client = await partition.command((redis, keys) => redis.hget(keys.topic(topic), 'publisher'));
    if (!client) continue;
    const bytes = await partition.command((redis, keys) => redis.hget(keys.delayed_held(client), topic));
    holdings.push({ topic, client, events, bytes: Number(bytes ?? 0) });
  }
  return holdings;
}

/**
 * Returns how many delayed events of each topic must be dropped, so that `freeBytes` become free in all. Only clients
 * that hold more than their fair share (fair_share.ts) lose events. Such a client loses the same percentage of events
 * in each of its topics.
 */
export function delayedDropOrders(
  holdings: readonly DelayedHolding[],
  freeBytes: number,
): DelayedDropOrder[] {
  const byClient = Map.groupBy(holdings, ({ client }) => client);
  const clients = [...byClient].map(([token, all]) => ({ token, bytes: bytesOf(all) }));
  return fairLosses(clients, freeBytes).flatMap(({ token, part }) =>
    (byClient.get(token) ?? []).map(({ topic, events }) => ({ topic, maxDeleted: Math.ceil(events * part) })),
  );
}

/**
 * Drops as many delayed events of each topic as `orders` says. Stops earlier if Redis stores at most `target` bytes.
 * Yields what was dropped.
 */
export async function* dropDelayed(
  partition: Partition,
  limits: MemoryLimits,
  orders: readonly DelayedDropOrder[],
  target: number,
  signal: AbortSignal,
): AsyncGenerator<DelayedDrop> {
  let plan = orders.filter(({ maxDeleted }) => maxDeleted > 0);
  while (plan.length > 0 && (await staysAbove(target, partition, limits, signal))) {
    const slice = firstDropOrders(plan.slice(0, MAX_TOPICS), MAX_DROPPED);
    const drops = await partition.run('drop_delayed', { orders: slice });
    plan = withoutDropped(
      plan,
      slice.map(({ maxDeleted }) => maxDeleted),
    );
    yield* drops;
  }
}
