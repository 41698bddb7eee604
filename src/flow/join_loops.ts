import type { Partitions } from '../store/partitions.ts';

interface Joined {
  /** The token of the join. */
  token: string;
  sources: readonly string[];
  /** The topics to which the join will publish. */
  outlets: readonly string[];
}

/**
 * A join counts the events of its source topics and publishes events to its outlets, which are topics too. Returns the
 * source topic through which events of a join would come back to the join, by way of other joins in any partition.
 * Returns undefined if there is no such loop.
 *
 * The search runs against the direction of the events: from a source topic to the join that publishes to this topic,
 * then to the source topics of that join, and so on. If different clients make joins at the same moment, this function
 * may not find a loop of them.
 */
export async function sourceInLoop(
  partitions: Partitions,
  { token, sources, outlets }: Joined,
): Promise<string | undefined> {
  const seen = new Set<string>();
  for (const source of sources) {
    const left = [source];
    for (let topic = left.pop(); topic !== undefined; topic = left.pop()) {
      if (outlets.includes(topic)) return source;
      if (seen.has(topic)) continue;
      seen.add(topic);
      left.push(...(await sourcesBefore(partitions, topic, token)));
    }
  }
  return undefined;
}

/**
 * Returns the source topics of the join that publishes to a topic. A join publishes only to topics of its client, so
 * the join is looked up in the partition of the topic's publisher. Returns an empty list if no join publishes to the
 * topic, or if that join is `except`.
 */
async function sourcesBefore(partitions: Partitions, topic: string, except: string): Promise<string[]> {
  const home = partitions.ofTopic(topic);
  const publisher = await home.command((redis, keys) => redis.hget(keys.topic(topic), 'publisher'));
  if (!publisher) return [];
  return partitions.ofSubscriber(publisher).command(async (redis, keys) => {
    const join = await redis.hget(keys.joins_into(), topic);
    return join && join !== except ? redis.smembers(keys.subscriber_topics(join)) : [];
  });
}
