import { uidSeed } from '../ids.ts';
import type { Received } from '../store/contract.ts';
import type { PUBLISHED } from '../store/contracts/publishing.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { ReadEvent } from './event_fields.ts';
import type { Idempotency } from './idempotency.ts';

/** Events of one client for one topic. Either all of them are stored or none. */
export interface Publication {
  topic: string;
  /** The client's token. */
  client: string;
  /** The JSON texts of the events, in the order in which the client sent them. */
  events: string[];
  idempotency?: Idempotency;
}

/** A publication of which some events may be published later (`at` or `delay`). */
export interface TimedPublication extends Omit<Publication, 'events'> {
  events: ReadEvent[];
}

/**
 * The result of a publication, as lua/publishing/publish.lua explains it. Only `accepted` means that this call has
 * stored the publication.
 */
export type Outcome = Reply<'publish'>['outcomes'][number];

/**
 * The result of a publication with delayed events (lua/flow/delayed/delay.lua). `index` is the position, from 0, of the
 * event because of which the publication was refused.
 */
export interface TimedOutcome {
  outcome: Reply<'delay'>['outcomes'][number]['outcome'];
  index?: number | undefined;
}

export type PublishLimits = Omit<Arguments<'publish'>, 'uidSeed' | 'publications'>;

export interface Stored {
  /**
   * One outcome for each publication, with the number of the topic's subscribers. The number is 0 if the publication
   * was not accepted.
   */
  outcomes: { outcome: Outcome; subscribers: number }[];
  /**
   * How many events were added to the queues of subscribers. If a subscriber got events of several topics, it is listed
   * once for each topic.
   */
  added: [subscriber: string, events: number][];
}

/**
 * Stores publications with one script call, in the given order. Their topics must be in the same partition. Redis
 * remembers the idempotency keys of accepted publications for `idempotencyWindowMs`.
 */
export async function storePublications(
  partition: Partition,
  publications: readonly Publication[],
  { idempotencyWindowMs, maxTopics, maxClientTopics, maxClientKeys, maxOutboxBytes }: PublishLimits,
): Promise<Stored> {
  const runs: Publication[][] = [];
  let before: Publication | undefined;
  for (const publication of publications) {
    if (before && goAsOne(before, publication)) runs.at(-1)?.push(publication);
    else runs.push([publication]);
    before = publication;
  }
  const reply = await partition.run('publish', {
    uidSeed: uidSeed(),
    idempotencyWindowMs,
    maxTopics,
    maxClientTopics,
    maxClientKeys,
    maxOutboxBytes,
    publications: runs.map(joined),
  });
  return {
    outcomes: runs.flatMap((run, index) => {
      const [outcome, subscribers] = [reply.outcomes[index] as Outcome, reply.subscribers[index] ?? 0];
      return run.map(() => ({ outcome, subscribers }));
    }),
    added: reply.addedByTopic.flatMap(addedBySubscriber),
  };
}

function joined(run: readonly Publication[]): Arguments<'publish'>['publications'][number] {
  const { topic, client, idempotency, events } = run[0] as Publication;
  return {
    topic,
    client,
    ...idempotency,
    events: run.length === 1 ? events : run.flatMap((publication) => publication.events),
  };
}

export interface PublishFigures {
  published(topic: string, events: number, bytes: number): void;
  added(subscriber: string, events: number): void;
}

export function addedBySubscriber({
  events,
  subscribers,
}: Reply<'publish'>['addedByTopic'][number]): Stored['added'] {
  return subscribers === '' ? [] : subscribers.split('\n').map((token) => [token, events]);
}

/**
 * Counts in the metrics the events that a script has published. The events of a foreign topic were counted as published
 * in the partition of the topic.
 */
export function countPublished(
  figures: PublishFigures,
  published: readonly (Received<typeof PUBLISHED> & { isForeign?: boolean })[],
): void {
  for (const each of published) {
    if (!each.isForeign) figures.published(each.topic, each.events, each.bytes);
    for (const [subscriber, events] of addedBySubscriber(each)) figures.added(subscriber, events);
  }
}

/**
 * True if two consecutive publications can be sent to Redis as one: both are of the same topic and client, and neither
 * has an idempotency key. Sending them as one saves a fifth of Redis's CPU under load.
 */
function goAsOne(one: Publication, next: Publication): boolean {
  if (one.topic !== next.topic || one.client !== next.client) return false;
  return !one.idempotency && !next.idempotency;
}
