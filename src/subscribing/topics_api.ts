import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import type { Clients } from '../authentication/client.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import { allows } from '../authentication/scope.ts';
import type { Caller } from '../caller.ts';
import { BusError } from '../errors.ts';
import { type Input, NO_CONTENT, ok } from '../route.ts';
import { SharedReading } from '../shared_reading.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../topic_name.ts';
import { TOPIC, type Topic, type Topics } from './topic.ts';

export interface TopicParams {
  name: string;
}

export const TOPIC_PARAMS: Input<TopicParams> = {
  schema: z.object({ name: z.string().regex(TOPIC_NAME) }),
  wording: { code: 'bad_topic', whole: `a topic name has ${TOPIC_NAME_RULE}` },
};
export const TOPICS = z.array(TOPIC);

/** Maximum topics of which one turn of the event loop makes JSON. */
const SLICE = 500;

/** Yields a JSON array in pieces, with other work in between. */
async function* inSlices(
  all: readonly Topic[],
  shown: (slice: readonly Topic[]) => Promise<readonly Topic[]>,
): AsyncGenerator<string> {
  for (let from = 0; from < all.length; from += SLICE) {
    const json = JSON.stringify(await shown(all.slice(from, from + SLICE)));
    yield (from === 0 ? '[' : ',') + json.slice(1, -1);
    await nextTurn();
  }
  yield ']';
}

interface TopicsParts {
  topics: Topics;
  publicNames: PublicNames;
  clients: Pick<Clients, 'find'>;
}

/** Handlers of `/topics`. */
export function topicsApi({ topics, publicNames, clients }: TopicsParts) {
  /**
   * A topic keeps its publisher when that client is limited, so that nobody else takes its name and subscribers.
   * Asks Redis, because a deletion cannot be undone and the cache may have the scopes of a moment ago.
   */
  const refuseUnlessMayPublish = async (token: string, topic: string) => {
    const client = await clients.find(token);
    if (!client || !allows(client.scopes?.publish, topic))
      throw new BusError('forbidden', `this client may not publish to ${topic}, so only root may delete it`);
  };

  const listing = new SharedReading(() => topics.list());

  /** A token can be a credential, so other clients get the publisher's public name. */
  const shownTo = async (caller: Caller, list: readonly Topic[]): Promise<Topic[]> => {
    if (caller.role === 'root') return [...list];
    const publicName = await publicNames.of(list.flatMap(({ publisher }) => publisher ?? []));
    const shown = (token: string) => (token === caller.token ? token : publicName(token));
    return list.map((topic) => ({ ...topic, publisher: topic.publisher && shown(topic.publisher) }));
  };

  return {
    async list({ caller }: { caller: Caller }) {
      const all = await listing.get();
      if (all.length <= SLICE) return ok(await shownTo(caller, all));
      const headers = { 'Content-Type': 'application/json; charset=utf-8' };
      return { ...ok(inSlices(all, (slice) => shownTo(caller, slice))), headers };
    },

    async remove({ caller, params: { name } }: { caller: Caller; params: TopicParams }) {
      if (caller.role === 'client') await refuseUnlessMayPublish(caller.token, name);
      const outcome = await topics.remove(name, caller.role === 'client' ? caller.token : undefined);
      if (outcome === 'topic_not_found') throw new BusError(outcome, `there is no topic ${name}`);
      if (outcome === 'forbidden')
        throw new BusError(outcome, `only the publisher of ${name}, or root, may delete it`);
      return NO_CONTENT;
    },
  };
}
