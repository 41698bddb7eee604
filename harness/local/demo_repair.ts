import type { BusClient } from '../http/bus_client.ts';
import { TOPICS } from './demo_cast.ts';

/** Matches the tokens of the demo's clients that own topics. */
const OWNER = /^demo_(publisher|subscriber)--/;

/**
 * Deletes the demo's topics that belong to clients of an earlier demo. Those clients were removed, or their demo.json
 * is gone. The present clients (`tokens`) could not publish to these topics. Returns the names of the topics.
 */
export async function freeTopics(root: BusClient, tokens: readonly string[]): Promise<string[]> {
  const topics = (await root.call('GET', '/topics')) as { name: string; publisher: string | null }[];
  const lost = topics
    .filter(({ name }) => TOPICS.includes(name))
    .filter(({ publisher }) => publisher !== null && OWNER.test(publisher) && !tokens.includes(publisher))
    .map(({ name }) => name);
  for (const name of lost) await root.call('DELETE', `/topics/${name}`);
  return lost;
}
