import { uidSeed } from '../ids.ts';
import type { Packed } from '../redis/packed.ts';
import type { ScriptArgument } from '../redis/script_values.ts';
import type { Store } from '../redis/store.ts';
import type { Idempotency } from './idempotency.ts';
import { COUNTS_KEPT_MS, type NonceCount } from './nonce_counts.ts';

/** One client's events for one topic; all are stored, or none. */
export interface Publication {
  topic: string;
  /** The client's token. */
  client: string;
  /** Packed events, in their order. */
  events: Packed[];
  /** If it has an idempotency key. */
  idempotency?: Idempotency;
  /** What it was authenticated by, if that is to be taken first. */
  count?: NonceCount | undefined;
}

/**
 * What became of a publication. Nothing of it was stored by this call unless it is `accepted`: `repeated` says that it was
 * accepted before under the same key, `key_reused` that something else was, `no_room` that there may be no more topics,
 * `repeated_count` that its count was taken before.
 */
export type Outcome =
  | 'accepted'
  | 'repeated'
  | 'claimed_by_other'
  | 'key_reused'
  | 'no_room'
  | 'repeated_count';

/** As the script says it; of what is accepted it says how many subscribers got it. */
const REFUSALS = new Map<number, Outcome>([
  [-1, 'claimed_by_other'],
  [-2, 'repeated'],
  [-3, 'key_reused'],
  [-4, 'no_room'],
  [-5, 'repeated_count'],
]);

export interface Stored {
  /** One for each publication; `subscribers`: how many the topic has, where it is accepted. */
  outcomes: { outcome: Outcome; subscribers: number }[];
  /** How many events each subscriber got; one that has several of the topics, by topic. */
  added: [subscriber: string, events: number][];
}

/**
 * Stores publications in one script call, in their order. A key is known for `windowMs` after what it was accepted for. Where there
 * are `mostTopics` already, no topic is made.
 */
export async function storePublications(
  store: Store,
  publications: readonly Publication[],
  windowMs: number,
  mostTopics: number,
): Promise<Stored> {
  const args: ScriptArgument[] = [uidSeed(), windowMs, mostTopics, COUNTS_KEPT_MS];
  const runOf: number[] = [];
  let [run, countAt] = [-1, 0];
  let before: Publication | undefined;
  for (const publication of publications) {
    if (!before || !goAsOne(before, publication)) {
      const { topic, client, idempotency, count } = publication;
      args.push(topic, client, idempotency?.digest ?? '', idempotency?.fingerprint ?? '');
      countAt = args.push(count?.nonce ?? '', count?.count ?? '', 0) - 1;
      run++;
    }
    before = publication;
    runOf.push(run);
    args[countAt] = (args[countAt] as number) + publication.events.length;
    for (const event of publication.events) args.push(event);
  }
  const [accepted, added] = (await store.run('publish', ...args)) as [number[], (Buffer | number)[]];
  const outcomes = accepted.map((subscribers) => ({
    outcome: REFUSALS.get(subscribers) ?? 'accepted',
    subscribers,
  }));
  return {
    outcomes: runOf.map((each) => outcomes[each] as Stored['outcomes'][number]),
    added: readAdded(added),
  };
}

/** What a topic's subscribers got, in pairs: how many events, and the subscribers, a line each. */
export function readAdded(added: readonly (Buffer | number)[]): Stored['added'] {
  return added.flatMap((events, i) => {
    const subscribers = String(added[i + 1] ?? '');
    if (i % 2 || subscribers === '') return [];
    return subscribers.split('\n').map((token): [string, number] => [token, Number(events)]);
  });
}

/** Neighbours of one topic and client go as one publication: a fifth less of Redis under load. Each key is looked up for itself, and each count. */
function goAsOne(one: Publication, next: Publication): boolean {
  const alone = ({ idempotency, count }: Publication) => idempotency ?? count;
  return one.topic === next.topic && one.client === next.client && !alone(one) && !alone(next);
}
