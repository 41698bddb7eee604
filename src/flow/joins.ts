import { joinToken, readJoinToken } from '../join_token.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partitions } from '../store/partitions.ts';
import { type JoinReport, type KeyPlace, type OpenKey, readOpenKeys, readReport } from './join_report.ts';
import { type JoinRules, outletsOf } from './join_rules.ts';
import type { JoinLimits } from './join_store.ts';

/** Maximum joins that are read at once: each takes eight commands. */
const LIST_SLICE = 50;

/** The joins of all clients. A join is known by its token, which has its name and its client. */
export class Joins {
  readonly #partitions: Partitions;
  readonly #limits: JoinLimits;

  constructor(partitions: Partitions, limits: JoinLimits) {
    this.#partitions = partitions;
    this.#limits = limits;
  }

  /** Makes a join, or changes it. Changes nothing if it may not be so; the script says why. */
  put(client: string, name: string, rules: JoinRules): Promise<Reply<'put_join'>> {
    const { maxJoins, maxClientJoins, maxTopics, maxClientTopics } = this.#limits;
    const token = joinToken(name, client);
    return this.#partitions.ofSubscriber(token).run('put_join', {
      ...{ token, name, client, maxJoins, maxClientJoins, maxTopics, maxClientTopics },
      rules: JSON.stringify(rules),
      withinMs: rules.within,
      sources: rules.sources.map(({ topic }) => topic),
      outlets: outletsOf(rules),
    });
  }

  /** Returns the tokens of all joins, or of those of a client, by client and name. */
  async tokens(client?: string): Promise<string[]> {
    const found = await Promise.all(
      this.#partitions.all.map((partition) =>
        partition.command(async (redis, keys) => {
          if (client === undefined) return redis.smembers(keys.joins());
          return (await redis.smembers(keys.joins_of(client))).map((name) => joinToken(name, client));
        }),
      ),
    );
    return found.flat().sort((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
  }

  /** Returns those of these joins that exist. */
  async read(tokens: readonly string[]): Promise<JoinReport[]> {
    const reports: (JoinReport | undefined)[] = [];
    for (let from = 0; from < tokens.length; from += LIST_SLICE) {
      const slice = tokens.slice(from, from + LIST_SLICE);
      reports.push(...(await Promise.all(slice.map((token) => this.find(token)))));
    }
    return reports.filter((each) => each !== undefined);
  }

  find(token: string): Promise<JoinReport | undefined> {
    return this.#partitions.ofSubscriber(token).command((redis, keys) => readReport(redis, keys, token));
  }

  /** Returns up to `count` open keys of a join after a place, those that have been open for longest first. */
  openKeys(token: string, rules: JoinRules, count: number, after?: KeyPlace): Promise<OpenKey[]> {
    return this.#partitions
      .ofSubscriber(token)
      .command((redis, keys) => readOpenKeys(redis, keys, { token, ...rules }, count, after));
  }
}

/** Returns the place of a join in listings. A NUL parts client and name, since neither has one. */
export function placeOf(token: string): string {
  const { name = '', client = '' } = readJoinToken(token) ?? {};
  return `${client}\0${name}`;
}
