import { NONCE_USES_KEPT_MS, type NonceUse } from '../authentication/nonce_uses.ts';
import { uidSeed } from '../ids.ts';
import type { Packed } from '../store/packed.ts';
import type { ScriptArgument } from '../store/script_values.ts';
import type { Store } from '../store/store.ts';
import type { Idempotency } from './idempotency.ts';

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
  count?: NonceUse | undefined;
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
  const runs: Publication[][] = [];
  let before: Publication | undefined;
  for (const publication of publications) {
    if (before && goAsOne(before, publication)) runs.at(-1)?.push(publication);
    else runs.push([publication]);
    before = publication;
  }
  const args: ScriptArgument[] = [uidSeed(), windowMs, mostTopics, NONCE_USES_KEPT_MS];
  for (const run of runs) pushRun(args, run);
  const reply = await store.run('publish', ...args);
  const [accepted, added, repeated] = reply as [number[], (Buffer | number)[], number[]];
  return { outcomes: readOutcomes(runs, accepted, new Set(repeated)), added: readAdded(added) };
}

/** A run goes as one publication. */
function pushRun(args: ScriptArgument[], run: readonly Publication[]): void {
  const { topic, client, idempotency } = run[0] as Publication;
  args.push(topic, client, idempotency?.digest ?? '', idempotency?.fingerprint ?? '');
  const sizesAt = args.push(0, 0) - 2;
  let [counts, events] = [0, 0];
  for (const { count } of run) {
    if (!count) continue;
    counts++;
    args.push(count.nonce, count.count);
  }
  for (const publication of run) {
    events += publication.events.length;
    for (const event of publication.events) args.push(event);
  }
  args[sizesAt] = counts;
  args[sizesAt + 1] = events;
}

function readOutcomes(
  runs: readonly Publication[][],
  accepted: readonly number[],
  repeated: ReadonlySet<number>,
): Stored['outcomes'] {
  let counts = 0;
  return runs.flatMap((run, index) => {
    const subscribers = accepted[index] as number;
    const outcome = REFUSALS.get(subscribers) ?? 'accepted';
    return run.map(({ count }) =>
      count && repeated.has(++counts) ? { outcome: 'repeated_count', subscribers } : { outcome, subscribers },
    );
  });
}

/** What a topic's subscribers got, in pairs: how many events, and the subscribers, a line each. */
export function readAdded(added: readonly (Buffer | number)[]): Stored['added'] {
  return added.flatMap((events, i) => {
    const subscribers = String(added[i + 1] ?? '');
    if (i % 2 || subscribers === '') return [];
    return subscribers.split('\n').map((token): [string, number] => [token, Number(events)]);
  });
}

/**
 * Neighbours of one topic and client go as one publication: a fifth less of Redis under load. Each key is looked up for itself; a
 * count is for all of its publication, or each is for an event.
 */
function goAsOne(one: Publication, next: Publication): boolean {
  if (one.topic !== next.topic || one.client !== next.client || one.idempotency || next.idempotency)
    return false;
  if (!one.count && !next.count) return true;
  return isCountedEvent(one) && isCountedEvent(next);
}

function isCountedEvent({ count, events }: Publication): boolean {
  return count !== undefined && events.length === 1;
}
