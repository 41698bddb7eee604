import { packJob } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { marksIn, TopicMarks } from '../subscribing/topic_marks.ts';
import { Walk } from './sweep/walk.ts';

interface CrossingParts {
  partition: Partition;
  partitions: Partitions;
  leaseMs: number;
}

/**
 * Repairs what a partition and the others know of each other: marks without subscribers, which a call that was cut off
 * leaves behind, subscribers without a mark, and outboxes without a job. A mark without subscribers is no finding; the other
 * two come only from a Redis that lost writes.
 */
export async function sweepCrossing(parts: CrossingParts, signal: AbortSignal): Promise<void> {
  const walk = new Walk(parts.partition, signal, []);
  await refreshMarksHere(walk, parts.partitions);
  await refreshMarksElsewhere(walk, parts.partitions);
  await putOutboxJobs(walk, parts);
}

/** Compares the marks of the topics that live here with their subscribers in the other partitions. */
async function refreshMarksHere(walk: Walk, partitions: Partitions): Promise<void> {
  const marks = new TopicMarks(partitions);
  for await (const members of walk.members('set', walk.partition.keys.topics())) {
    const topics = members.map(String);
    const texts = await walk.ask((redis, keys) =>
      Promise.all(topics.map((topic) => redis.hget(keys.topic(topic), 'elsewhere'))),
    );
    const marked = new Map<number, string[]>();
    for (const [index, topic] of topics.entries())
      for (const partition of marksIn(texts[index] ?? null).keys())
        marked.set(partition, [...(marked.get(partition) ?? []), topic]);
    for (const [index, names] of marked) {
      const other = partitions.all[index];
      if (other) await marks.refresh(other, names);
    }
  }
}

/** Sets missing marks for the topics that subscribers of this partition get from others. */
async function refreshMarksElsewhere(walk: Walk, partitions: Partitions): Promise<void> {
  const marks = new TopicMarks(partitions);
  for await (const tokens of walk.members('set', walk.partition.keys.subscribers())) {
    const topics = await walk.ask((redis, keys) =>
      Promise.all(tokens.map((token) => redis.smembers(keys.subscriber_topics(String(token))))),
    );
    await marks.refresh(walk.partition, [...new Set(topics.flat())]);
  }
}

/** Puts the job of each outbox that has entries, unless a living worker has it or it waits already. */
async function putOutboxJobs(walk: Walk, { partitions, leaseMs }: CrossingParts): Promise<void> {
  for (const { index } of partitions.all) {
    const entries = await walk.ask((redis, keys) => redis.llen(keys.outbox(String(index))));
    if (entries > 0) await walk.run('enqueue', { q: 'aux', job: packJob('outbox', [index]), leaseMs });
  }
}
