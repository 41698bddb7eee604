import type { Partitions } from '../../store/partitions.ts';

interface Joined {
  token: string;
  sources: readonly string[];
  /** The topics to which the join will publish. */
  outlets: readonly string[];
}

/**
 * Returns the source topic through which events of a join would come back to the join, by way of other joins. Returns
 * undefined if there is no such loop.
 *
 * The search goes backward: from a source topic to the joins that publish to it, then to the source topics of these
 * joins, and so on. A loop is missed if different clients make its joins at the same moment.
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
 * Returns the source topics of all joins, in any partition, that publish to a topic, except those of the join `except`.
 * A join counts even if its client does not own the topic at the moment, because the client can get the topic back.
 */
async function sourcesBefore(partitions: Partitions, topic: string, except: string): Promise<string[]> {
  const found = await partitions.ask(async (redis, keys) => {
    const join = await redis.hget(keys.joins_into(), topic);
    return join && join !== except ? redis.smembers(keys.subscriber_topics(join)) : [];
  });
  return found.flat();
}
