import { slicesOf } from '../../chunks.ts';
import { joinToken, readJoinToken } from '../../ids.ts';
import type { Arguments, Reply } from '../../store/contracts.ts';
import type { Partition } from '../../store/partition.ts';
import type { Partitions } from '../../store/partitions.ts';
import { TopicMarks } from '../../subscribing/topic_marks.ts';
import {
  type JoinReport,
  type KeyPlace,
  type OpenKeysPage,
  readOpenKeys,
  readReport,
} from './join_report.ts';
import type { JoinRules } from './join_rules.ts';
import { claimTopics, type JoinLimits, outletsOf } from './join_store.ts';

/** Maximum joins that are read at the same time. Reading one takes eight commands and a script. */
const LISTED_AT_ONCE = 50;

/** The joins of all clients. The token of a join contains its name and the token of its client. */
export class Joins {
  readonly #partitions: Partitions;
  readonly #limits: JoinLimits;
  readonly #marks: TopicMarks;

  constructor(partitions: Partitions, limits: JoinLimits) {
    this.#partitions = partitions;
    this.#marks = new TopicMarks(partitions);
    this.#limits = limits;
  }

  /**
   * Creates or changes a join. If this is refused, `outcome` is the reason, and the join stays as it was. But the
   * client may already have become the publisher of topics in other partitions, to which the join was to publish.
   */
  async put(client: string, name: string, rules: JoinRules): Promise<Reply<'put_join'>> {
    const token = joinToken(name, client);
    const partition = this.#partitions.ofSubscriber(token);
    const sources = rules.sources.map(({ topic }) => topic);
    const outlets = outletsOf(rules);
    const isHere = (topic: string) => this.#partitions.ofTopic(topic) === partition;
    const foreignSources = this.#marks.foreign(partition, sources);
    const before = this.#partitions.all.length > 1 ? await this.#sourcesOf(partition, token) : [];
    const putting = {
      ...this.#limits,
      token,
      name,
      client,
      rules: JSON.stringify(rules),
      withinMs: rules.within,
      sources,
      outlets,
      sourcesHere: sources.filter(isHere),
      outletsHere: outlets.filter(isHere),
      foreignSources,
    };
    return this.#marks.correctAfter(partition, foreignSources, async () => {
      const refusal = await this.#prepare(partition, putting);
      const reply = refusal ?? (await partition.run('put_join', { ...putting, judgesOnly: false }));
      await this.#marks.refreshLeft(partition, before);
      return reply;
    });
  }

  #sourcesOf(partition: Partition, token: string): Promise<string[]> {
    return partition.command((redis, keys) => redis.smembers(keys.subscriber_topics(token)));
  }

  /**
   * Prepares other partitions for a new or changed join. Returns the reason for a refusal, such as a loop of joins, or
   * undefined.
   *
   * - First checks whether the join would be refused, without changing anything.
   * - Then makes source topics in other partitions pass on their events to the partition of the join.
   * - Last makes the client the publisher of topics to which the join publishes. This is not undone if the join is
   *   refused after all, so it comes last.
   */
  async #prepare(
    partition: Partition,
    putting: Omit<Arguments<'put_join'>, 'judgesOnly'>,
  ): Promise<Reply<'put_join'> | undefined> {
    if (this.#partitions.all.length === 1) return undefined;
    const { client, outlets, foreignSources, maxTopics } = putting;
    const foreignOutlets = this.#marks.foreign(partition, outlets);
    const claim = (judgesOnly: boolean) =>
      claimTopics(this.#partitions, client, foreignOutlets, this.#limits, judgesOnly);
    const loop = await sourceInLoop(this.#partitions, putting);
    if (loop !== undefined) return { outcome: 'loop', topic: loop, join: undefined };
    const refused = await claim(true);
    if (refused) return refused;
    const judged = await partition.run('put_join', { ...putting, judgesOnly: true });
    if (judged.outcome !== 'created' && judged.outcome !== 'changed') return judged;
    if (!(await this.#marks.reserve(partition, foreignSources, maxTopics)))
      return { outcome: 'no_room', topic: undefined, join: undefined };
    return claim(false);
  }

  /** Returns the tokens of all joins, or of the joins of one client, sorted by client and name. */
  async tokens(client?: string): Promise<string[]> {
    const found = await this.#partitions.ask(async (redis, keys) => {
      if (client === undefined) return redis.smembers(keys.joins());
      return (await redis.smembers(keys.joins_of(client))).map((name) => joinToken(name, client));
    }, this.#partitions.holding(client));
    return found.flat().sort((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
  }

  /** Returns the reports of the joins with these tokens. Leaves out joins that do not exist or cannot be read. */
  async read(tokens: readonly string[]): Promise<JoinReport[]> {
    const reports: (JoinReport | undefined)[] = [];
    const read = (token: string) => {
      const partition = this.#partitions.ofSubscriber(token);
      return partition.command((redis) => readReport(redis, partition, token).catch(partition.skip));
    };
    for (const slice of slicesOf(tokens, LISTED_AT_ONCE))
      reports.push(...(await Promise.all(slice.map(read))));
    return reports.filter((each) => each !== undefined);
  }

  find(token: string): Promise<JoinReport | undefined> {
    const partition = this.#partitions.ofSubscriber(token);
    return partition.command((redis) => readReport(redis, partition, token));
  }

  openKeys(token: string, rules: JoinRules, limit: number, after?: KeyPlace): Promise<OpenKeysPage> {
    return this.#partitions
      .ofSubscriber(token)
      .command((redis, keys) => readOpenKeys(redis, keys, { token, ...rules }, limit, after));
  }
}

/** Returns the key by which listings sort joins: client and name, separated by NUL, which neither can contain. */
export function placeOf(token: string): string {
  const { name = '', client = '' } = readJoinToken(token) ?? {};
  return `${client}\0${name}`;
}

interface Joined {
  token: string;
  sources: readonly string[];
  /** The topics to which the join will publish. */
  outlets: readonly string[];
}

/**
 * Looks for a loop: joins that publish to each other's source topics in a circle, so that events of this join would
 * come back to it. Returns the source topic of this join that is in the loop, or undefined if there is no loop.
 *
 * The search goes backward: from a source topic to the joins that publish to it, then to the source topics of these
 * joins, and so on. The script put_join searches once more, but only through joins of its own partition: as it stores
 * the join in the same step, two joins of one client cannot close a loop between them. A loop is missed if different
 * clients make its joins at the same moment.
 */
async function sourceInLoop(
  partitions: Partitions,
  { token, sources, outlets }: Joined,
): Promise<string | undefined> {
  const seen = new Set<string>();
  for (const source of sources) {
    const left = [source];
    for (let topic = left.pop(); topic !== undefined; topic = left.pop()) {
      if (outlets.includes(topic)) return source;
      if (seen.has(topic)) continue;
      seen.add(topic);
      left.push(...(await sourcesBefore(partitions, topic, token)));
    }
  }
  return undefined;
}

/**
 * Finds the joins that publish to `topic`, in all partitions, and returns their source topics. Leaves out the join
 * `except`. A join counts even if its client does not own `topic` at the moment, because the client can get the topic
 * back.
 */
async function sourcesBefore(partitions: Partitions, topic: string, except: string): Promise<string[]> {
  const found = await partitions.ask(async (redis, keys) => {
    const join = await redis.hget(keys.joins_into(), topic);
    return join && join !== except ? redis.smembers(keys.subscriber_topics(join)) : [];
  });
  return found.flat();
}
