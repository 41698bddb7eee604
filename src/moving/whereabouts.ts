import { topicOfDefinition } from '../flow/triggers/definition.ts';
import { bidOf } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Owner } from './rows.ts';

/**
 * For a move from a bus with one partition (the source) to one with several (the target): finds the partitions of the
 * target to which data is copied. For example, data of a topic goes to the topic's home.
 */
export class Whereabouts {
  readonly #source: Partition;
  readonly #partitions: Partitions;

  constructor(source: Partition, partitions: Partitions) {
    this.#source = source;
    this.#partitions = partitions;
  }

  /**
   * Returns the partitions of the target to which the data of an owner is copied. Data of a batch or trigger that no
   * longer exists goes to the control partition, where a sweep removes it.
   */
  async of(owner: Owner): Promise<readonly Partition[]> {
    const { all, control } = this.#partitions;
    if (owner === 'nobody') return [];
    if (owner === 'all') return all;
    if (owner === 'control') return [control];
    if ('subscriber' in owner) return [this.#partitions.ofSubscriber(owner.subscriber)];
    if ('topic' in owner) return [this.#partitions.ofTopic(owner.topic)];
    if ('batch' in owner) return [await this.#ofBatch(owner.batch)];
    if ('trigger' in owner) return [await this.#ofTrigger(owner.trigger)];
    const job = await this.#source.command((redis, keys) =>
      redis.lindexBuffer(keys.jobs_pending('main', owner.worker), 0),
    );
    return job ? [await this.#ofBatch(bidOf(job) ?? '')] : [];
  }

  async #ofBatch(bid: string): Promise<Partition> {
    const { keys } = this.#source;
    for (const list of bid === '' ? [] : [keys.batch, keys.dead_letter, keys.ruby_batch]) {
      const token = await this.#source.command((redis) => redis.lindex(list(bid), 0));
      if (token !== null) return this.#partitions.ofSubscriber(token);
    }
    return this.#partitions.control;
  }

  async #ofTrigger({ client, name }: { client: string; name: string }): Promise<Partition> {
    const definition = await this.#source.command((redis, keys) =>
      redis.hget(keys.triggers_of(client), name),
    );
    const { control } = this.#partitions;
    return definition === null ? control : this.#partitions.ofTopic(topicOfDefinition(definition));
  }
}
