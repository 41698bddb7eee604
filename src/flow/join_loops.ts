import type { Partitions } from '../store/partitions.ts';

interface Joined {
  /** The token of the join. */
  token: string;
  sources: readonly string[];
  /** The topics to which the join will publish. */
  outlets: readonly string[];
}

/**
 * A join counts the events of its source topics and publishes to other topics, its outlets. Returns the source topic
 * through which events of a join would come back to the join, by way of other joins. Returns undefined if there is no
 * such loop.
 *
 * The search goes backward: from a source topic to the joins that publish to it, then to the source topics of these
 * joins, and so on. If different clients make joins at the same moment, it may miss a loop of these joins.
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
 * Returns the source topics of the joins that publish to a topic, or will if it becomes their client's again. A join is
 * in the partition of its client, whoever has the topic now. Leaves out the join `except`.
 */
async function sourcesBefore(partitions: Partitions, topic: string, except: string): Promise<string[]> {
  const found = await partitions.ask(async (redis, keys) => {
    const join = await redis.hget(keys.joins_into(), topic);
    return join && join !== except ? redis.smembers(keys.subscriber_topics(join)) : [];
  });
  return found.flat();
}
