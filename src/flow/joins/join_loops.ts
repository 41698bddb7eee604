import type { Partitions } from '../../store/partitions.ts';

interface Joined {
  token: string;
  sources: readonly string[];
  /** The topics to which the join is to publish. */
  outlets: readonly string[];
}

/**
 * Looks for a loop: joins that publish to each other's source topics in a circle, so that events of this join would
 * come back to it. Returns the source topic of this join that is in the loop, or undefined if there is no loop.
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
 * Returns the source topics of the joins, in any partition, that publish to `topic`. Leaves out the join `except`. A
 * join counts even if its client does not own `topic` at the moment, because the client can get it back.
 */
async function sourcesBefore(partitions: Partitions, topic: string, except: string): Promise<string[]> {
  const found = await partitions.ask(async (redis, keys) => {
    const join = await redis.hget(keys.joins_into(), topic);
    return join && join !== except ? redis.smembers(keys.subscriber_topics(join)) : [];
  });
  return found.flat();
}
