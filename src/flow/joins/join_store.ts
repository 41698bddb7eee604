import type { PublicNames } from '../../authentication/public_names.ts';
import type { Config } from '../../config.ts';
import type { SubscriberLines } from '../../delivering/subscriber_lines.ts';
import { readJoinToken, uidSeed } from '../../ids.ts';
import type { Recorder } from '../../metrics/recorder.ts';
import { countPublished } from '../../publishing/publication.ts';
import type { Arguments, Reply } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { marksIn } from '../../subscribing/topic_marks.ts';
import type { JoinRules } from './join_rules.ts';

export type JoinLimits = Pick<
  Config,
  | 'maxJoins'
  | 'maxClientJoins'
  | 'maxJoinKeys'
  | 'maxJoinBytes'
  | 'maxTopics'
  | 'maxClientTopics'
  | 'maxOutboxBytes'
>;

/** What a worker must know of a join to count events for it. */
export interface Join {
  token: string;
  rules: JoinRules;
  /**
   * When the rules were stored, in µs by the clock of Redis. A script that gets another version than the stored one
   * does nothing, because the rules have changed.
   */
  version: string;
  /**
   * The queue of the join may still have batches of a removed join of the same name. These are the batches whose score
   * in the queue (a sorted set) is at most `countsAfter`. Their events are not counted. 0 if there are none.
   */
  countsAfter: number;
}

/** Reads a join. Returns undefined if it no longer exists. Throws StorageUnavailable if Redis is away. */
export async function readJoin(partition: Partition, token: string): Promise<Join | undefined> {
  const [rules, version, countsAfter] = await partition.command((redis, keys) =>
    redis.hmget(keys.subscriber(token), 'join', 'subscribed_at', 'counts_after'),
  );
  if (!rules || !version) return undefined;
  return { token, rules: JSON.parse(rules), version, countsAfter: Number(countsAfter ?? 0) };
}

/**
 * Returns the arguments that scripts need to publish events for a join. `thenHome` is the index of the partition of the
 * topic of `then`, or undefined if that is the join's own partition. `expiryHome` says the same of the topic of
 * `on_expiry`.
 */
export function joinArguments({ token, rules, version }: Join, limits: JoinLimits, partitions: Partitions) {
  const partition = partitions.ofSubscriber(token);
  const homeOf = (topic: string | undefined) => {
    const home = topic === undefined ? partition : partitions.ofTopic(topic);
    return home === partition ? undefined : String(home.index);
  };
  const { name = '', client = '' } = readJoinToken(token) ?? {};
  const { then, on_expiry, within, sources } = rules;
  const { maxTopics, maxClientTopics, maxOutboxBytes } = limits;
  return {
    maxTopics,
    maxClientTopics,
    maxOutboxBytes,
    token,
    name,
    client,
    version,
    sources,
    withinMs: within,
    thenTopic: then.topic,
    thenType: then.type,
    thenHome: homeOf(then.topic),
    expiryTopic: on_expiry?.topic,
    expiryType: on_expiry?.type,
    expiryHome: homeOf(on_expiry?.topic),
    uidSeed: uidSeed(),
  } satisfies Partial<Arguments<'join_events'>>;
}

export function outletsOf({ then, on_expiry }: JoinRules): string[] {
  return [...new Set([then.topic, ...(on_expiry ? [on_expiry.topic] : [])])];
}

/**
 * Makes a client the publisher of these topics, each in the topic's own partition. Returns undefined or, if a topic is
 * refused, the topic and the reason. With `judgesOnly`, only checks whether a topic would be refused, and changes
 * nothing.
 */
export async function claimTopics(
  partitions: Partitions,
  client: string,
  outlets: readonly string[],
  { maxTopics, maxClientTopics }: Pick<JoinLimits, 'maxTopics' | 'maxClientTopics'>,
  judgesOnly = false,
) {
  for (const [home, topics] of Map.groupBy(outlets, (topic) => partitions.ofTopic(topic))) {
    const claim = { client, maxTopics, maxClientTopics, topics, judgesOnly };
    const { outcome, topic } = await home.run('claim_topics', claim);
    if (outcome !== 'ok') return { outcome, topic, join: undefined };
  }
  return undefined;
}

/**
 * Returns true if one of these topics cannot take events now. The partition of a topic passes events on to subscribers
 * in other partitions through outboxes. If one of these outboxes is full, the topic takes no events. Leaves out topics
 * in the join's own partition, which the scripts check. If a partition is away, its topics count as free: the join's
 * partition keeps events for that partition until it is back.
 */
export async function areFullElsewhere(
  { token }: Join,
  topics: readonly string[],
  { maxOutboxBytes }: Pick<JoinLimits, 'maxOutboxBytes'>,
  partitions: Partitions,
): Promise<boolean> {
  const foreign = topics.filter((topic) => partitions.ofTopic(topic) !== partitions.ofSubscriber(token));
  const found = foreign.map(async (topic) => {
    const [marks, bytes, aside] = await partitions
      .ofTopic(topic)
      .command((redis, keys) =>
        Promise.all([
          redis.hget(keys.topic(topic), 'elsewhere'),
          redis.hget(keys.outboxes_sent(), 'bytes'),
          redis.hgetall(keys.outboxes_bytes()),
        ]),
      );
    const waiting = (partition: number) => Number(bytes ?? 0) + Number(aside[partition] ?? 0);
    return [...marksIn(marks).keys()].some((partition) => waiting(partition) >= maxOutboxBytes);
  });
  return (await Promise.allSettled(found)).some((each) => each.status === 'fulfilled' && each.value);
}

export type JoinFigures = Pick<Recorder, 'published' | 'added' | 'joined'>;

/**
 * Adds to the metrics what a script reports about a join: completed keys, expired keys, events without a key, and
 * published events. If the join was not permitted to publish events about its expired keys, logs the reason.
 */
export async function noteCounted(
  parts: { recorder: JoinFigures; publicNames: PublicNames; lines: SubscriberLines },
  { token, rules }: Join,
  { completed = 0, expired, unkeyed = 0, published, expiryRefusal }: JoinReply,
): Promise<void> {
  const { recorder, publicNames, lines } = parts;
  recorder.joined(token, { completed, expired, unkeyed });
  countPublished(recorder, published);
  if (!expiryRefusal || !rules.on_expiry) return;
  const reason = refusalText(expiryRefusal, rules.on_expiry.topic);
  const line = { join: await publicNames.forLog(token), keys: expired, reason };
  lines.write(token, 'error', line, 'keys of a join expired, and it may not publish that');
}

type JoinReply = Pick<Reply<'expire_keys'>, 'expired' | 'published' | 'expiryRefusal'> & {
  completed?: number;
  unkeyed?: number;
};

/** Returns the text that tells the client of a join why the join is not permitted to publish to a topic. */
export function refusalText(reason: NonNullable<Reply<'join_events'>['reason']>, topic: string): string {
  if (reason === 'claimed_by_other') return `another client publishes to ${topic} now`;
  if (reason === 'replaced')
    return `another join has taken ${topic}; put this join again when the topic is yours`;
  if (reason === 'owns_too_many')
    return `${topic} was deleted, and its client owns as many topics as it may (ROUTEMASTER_MAX_CLIENT_TOPICS)`;
  return `${topic} was deleted, and the bus has no room for more topics (ROUTEMASTER_MAX_TOPICS)`;
}
