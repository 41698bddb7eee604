import type { Partitions } from '../store/partitions.ts';

interface Joined {
  /** The token of the join. */
  token: string;
  sources: readonly string[];
  /** The topics that it is to publish to. */
  outlets: readonly string[];
}

/**
 * Returns the source through which events of a join would come back to it, by joins in any partition; undefined if there
 * is none. Only the owner of a topic has joins that publish to it, so the joins are found by the publishers of topics. Two
 * joins of different clients that are made at the same moment can still become a loop.
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

/** Returns the sources of the join that publishes to a topic; none if there is none, or if it is `except`. */
async function sourcesBefore(partitions: Partitions, topic: string, except: string): Promise<string[]> {
  const home = partitions.ofTopic(topic);
  const publisher = await home.command((redis, keys) => redis.hget(keys.topic(topic), 'publisher'));
  if (!publisher) return [];
  return partitions.ofSubscriber(publisher).command(async (redis, keys) => {
    const join = await redis.hget(keys.joins_into(), topic);
    return join && join !== except ? redis.smembers(keys.subscriber_topics(join)) : [];
  });
}
