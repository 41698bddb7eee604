import { uidSeed } from '../ids.ts';
import type { Arguments } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { bytesOf } from './copies.ts';
import { BYTES_PER_EVENT, groupCommit, type PublishingParts } from './group_commit.ts';
import { countPublished, type Outcome, type Publication } from './publication.ts';

/** A publication and the sum of its events' bytes, which is computed only once. */
type Measured = Publication & { bytes: number };

/** Stores publications in groups: many in one script call. */
export class Publisher {
  readonly #parts: PublishingParts;
  readonly #store: (publication: Measured) => Promise<Outcome>;

  constructor(parts: PublishingParts) {
    this.#parts = parts;
    this.#store = groupCommit<Measured, Outcome>(
      parts,
      (partition, group) => this.#storeGroup(partition, group),
      (publication) => this.#weigh(publication),
    );
  }

  /**
   * Stores a publication. Resolves with `accepted` when Redis has the events for every subscriber of the topic. Any
   * other Outcome is the reason why this call has stored nothing.
   *
   * Throws body_too_large if the publication would make too many copies (events × subscribers), and StorageFull if
   * Redis is out of memory. In both cases nothing is stored. Throws StorageUnavailable if Redis is away. Then the
   * events may be stored or not. With an idempotency key, they can safely be published again.
   */
  async publish(publication: Publication): Promise<Outcome> {
    const bytes = bytesOf(publication);
    await this.#parts.copies.check(publication, bytes);
    return this.#store({ ...publication, bytes });
  }

  #weigh(publication: Measured): number {
    const { events, bytes } = publication;
    return Math.max(events.length, bytes / BYTES_PER_EVENT, this.#parts.copies.weigh(publication, bytes));
  }

  async #storeGroup(partition: Partition, group: readonly Measured[]): Promise<Outcome[]> {
    const { limits, onAccepted, copies, recorder } = this.#parts;
    const { idempotencyWindowMs, maxTopics, maxClientTopics, maxClientKeys, maxOutboxBytes } = limits;
    const runs = runsOf(group);
    const { outcomes, subscribers, published } = await partition.run('publish', {
      uidSeed: uidSeed(),
      idempotencyWindowMs,
      maxTopics,
      maxClientTopics,
      maxClientKeys,
      maxOutboxBytes,
      publications: runs.map(joined),
    });
    const results = runs.flatMap((run, index) => {
      const outcome = outcomes[index] as Outcome;
      for (const publication of outcome === 'accepted' ? run : []) {
        onAccepted(publication);
        copies.note(publication.topic, subscribers[index] ?? 0);
      }
      return run.map(() => outcome);
    });
    countPublished(recorder, published);
    return results;
  }
}

/** Groups consecutive publications that are sent to Redis as one. This saves a fifth of Redis's CPU under load. */
function runsOf(publications: readonly Measured[]): Measured[][] {
  const runs: Measured[][] = [];
  for (const publication of publications) {
    const run = runs.at(-1);
    if (run?.[0] && goAsOne(run[0], publication)) run.push(publication);
    else runs.push([publication]);
  }
  return runs;
}

/** True if both publications are of the same topic and client, and neither has an idempotency key. */
function goAsOne(one: Publication, next: Publication): boolean {
  if (one.topic !== next.topic || one.client !== next.client) return false;
  return !one.idempotency && !next.idempotency;
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
