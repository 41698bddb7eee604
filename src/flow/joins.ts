import { joinToken, readJoinToken } from '../join_token.ts';
import type { Reply } from '../store/contracts.ts';
import type { Partitions } from '../store/partitions.ts';
import { type JoinReport, type KeyPlace, type OpenKey, readOpenKeys, readReport } from './join_report.ts';
import { type JoinRules, outletsOf } from './join_rules.ts';
import type { JoinLimits } from './join_store.ts';

/** Maximum joins that are read at once: each takes eight commands. */
const LIST_SLICE = 50;

/** The joins of all clients. The token of a join contains its name and the token of its client. */
export class Joins {
  readonly #partitions: Partitions;
  readonly #limits: JoinLimits;

  constructor(partitions: Partitions, limits: JoinLimits) {
    this.#partitions = partitions;
    this.#limits = limits;
  }

  /** Makes or changes a join. If these rules are not allowed, changes nothing, and `outcome` says why. */
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

  /** Returns the tokens of all joins, or of those of a client, sorted by client and name. */
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

  /** Returns the reports of these joins, without those that do not exist. */
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

  /** Returns up to `count` open keys of a join after a place, the oldest first. */
  openKeys(token: string, rules: JoinRules, count: number, after?: KeyPlace): Promise<OpenKey[]> {
    return this.#partitions
      .ofSubscriber(token)
      .command((redis, keys) => readOpenKeys(redis, keys, { token, ...rules }, count, after));
  }
}

/** Returns the text by which listings sort a join: client and name, with a NUL between them, as neither has one. */
export function placeOf(token: string): string {
  const { name = '', client = '' } = readJoinToken(token) ?? {};
  return `${client}\0${name}`;
}
