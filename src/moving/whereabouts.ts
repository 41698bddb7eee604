import { deliveredBy } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Owner } from './rows.ts';
import { pipelined, topicOfDefinition } from './sums.ts';

const NOWHERE: readonly Partition[] = [];

/**
 * Finds the partitions of the target to which data of the source (a bus with one partition) is copied. Data of a topic
 * goes to the topic's home, for example, and data of a subscriber to the subscriber's partition.
 */
export class Whereabouts {
  readonly #source: Partition;
  readonly #partitions: Partitions;

  constructor(source: Partition, partitions: Partitions) {
    this.#source = source;
    this.#partitions = partitions;
  }

  /**
   * Returns, for each owner, the partitions of the target to which its data is copied:
   *
   * - a subscriber, topic, batch, worker or trigger: one partition;
   * - `all`: every partition, and `control`: the control partition;
   * - `nobody`, or a worker that holds no job: none;
   * - a batch or trigger that no longer exists: the control partition, where a sweep removes its remains.
   */
  async of(owners: readonly Owner[]): Promise<(readonly Partition[])[]> {
    const { all, control } = this.#partitions;
    const workers = await this.#batchesHeldBy(new Set(owners.flatMap((each) => idIfKind(each, 'worker'))));
    const bids = [...owners.flatMap((each) => idIfKind(each, 'batch')), ...workers.values()];
    const tokens = await this.#subscribersOf(new Set(bids));
    const topics = await this.#topicsOf(owners);
    const ofToken = (token: string | undefined) => [
      token === undefined ? control : this.#partitions.ofSubscriber(token),
    ];
    return owners.map((owner) => {
      if (owner === 'nobody') return NOWHERE;
      if (owner === 'all') return all;
      if (owner === 'control') return [control];
      if ('subscriber' in owner) return ofToken(owner.subscriber);
      if ('batch' in owner) return ofToken(tokens.get(owner.batch));
      if ('topic' in owner) return [this.#partitions.ofTopic(owner.topic)];
      if ('trigger' in owner) return [topics.get(owner) ?? control];
      const bid = workers.get(owner.worker);
      return bid === undefined ? NOWHERE : ofToken(tokens.get(bid));
    });
  }

  async #subscribersOf(bids: ReadonlySet<string>): Promise<Map<string, string>> {
    const { keys } = this.#source;
    const tokens = new Map<string, string>();
    for (const list of [keys.batch, keys.dead_letter, keys.ruby_batch]) {
      const left = [...bids].filter((bid) => bid !== '' && !tokens.has(bid));
      const found = await pipelined(this.#source, left, (pipeline, bid) => pipeline.lindex(list(bid), 0));
      for (const [index, bid] of left.entries())
        if (typeof found[index] === 'string') tokens.set(bid, found[index]);
    }
    return tokens;
  }

  /** For each of these workers that holds a job, returns the id of the batch that the worker delivers. */
  async #batchesHeldBy(workers: ReadonlySet<string>): Promise<Map<string, string>> {
    const { keys } = this.#source;
    const all = [...workers];
    const jobs = await pipelined(this.#source, all, (pipeline, worker) =>
      pipeline.lindexBuffer(keys.jobs_pending('main', worker), 0),
    );
    return new Map(all.flatMap((worker, i) => (jobs[i] ? [[worker, deliveredBy(jobs[i] as Buffer)]] : [])));
  }

  async #topicsOf(owners: readonly Owner[]): Promise<Map<Owner, Partition>> {
    const { keys } = this.#source;
    const all = owners.flatMap((owner) =>
      typeof owner === 'object' && 'trigger' in owner ? [{ owner, ...owner.trigger }] : [],
    );
    const definitions = await pipelined(this.#source, all, (pipeline, { client, name }) =>
      pipeline.hget(keys.triggers_of(client), name),
    );
    return new Map(
      all.flatMap(({ owner }, i) => {
        const definition = definitions[i];
        if (typeof definition !== 'string') return [];
        return [[owner, this.#partitions.ofTopic(topicOfDefinition(definition))]];
      }),
    );
  }
}

/** Returns a list with the id of the owner if it is of this kind, otherwise an empty list. */
function idIfKind(owner: Owner, kind: 'worker' | 'batch'): string[] {
  if (typeof owner !== 'object') return [];
  if (kind === 'worker') return 'worker' in owner ? [owner.worker] : [];
  return 'batch' in owner ? [owner.batch] : [];
}
