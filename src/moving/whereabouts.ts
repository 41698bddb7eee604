import { topicOfDefinition } from '../flow/triggers/definition.ts';
import type { TriggerName } from '../flow/triggers/stored_trigger.ts';
import { bidOf } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import type { Owner } from './rows.ts';

/** A bus with one partition, and the partitions to which it is moved. */
export interface Moving {
  source: Partition;
  target: Partitions;
}

/**
 * Returns to which partitions of the target the data of an owner is copied. For example, the data of a topic is copied
 * to the topic's home. Data of a batch or trigger that no longer exists goes to the control partition, where a sweep
 * removes it.
 */
export async function partitionsOf(moving: Moving, owner: Owner): Promise<readonly Partition[]> {
  const { source, target } = moving;
  if (owner === 'nobody') return [];
  if (owner === 'all') return target.all;
  if (owner === 'control') return [target.control];
  if ('subscriber' in owner) return [target.ofSubscriber(owner.subscriber)];
  if ('topic' in owner) return [target.ofTopic(owner.topic)];
  if ('batch' in owner) return [await ofBatch(moving, owner.batch)];
  if ('trigger' in owner) return [await ofTrigger(moving, owner.trigger)];
  const job = await source.command((redis, keys) =>
    redis.lindexBuffer(keys.jobs_pending('main', owner.worker), 0),
  );
  return job ? [await ofBatch(moving, bidOf(job) ?? '')] : [];
}

async function ofBatch({ source, target }: Moving, bid: string): Promise<Partition> {
  const { keys } = source;
  for (const list of bid === '' ? [] : [keys.batch, keys.dead_letter, keys.ruby_batch]) {
    const token = await source.command((redis) => redis.lindex(list(bid), 0));
    if (token !== null) return target.ofSubscriber(token);
  }
  return target.control;
}

async function ofTrigger({ source, target }: Moving, { client, name }: TriggerName): Promise<Partition> {
  const definition = await source.command((redis, keys) => redis.hget(keys.triggers_of(client), name));
  return definition === null ? target.control : target.ofTopic(topicOfDefinition(definition));
}
