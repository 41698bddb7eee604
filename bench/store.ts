import { RedisConnection, type RedisReply } from '../harness/redis/redis_call.ts';
import type { ScriptName } from '../src/store/contracts.ts';
import { scriptOfFunction } from '../src/store/function_library.ts';

/** Empties a database of Redis, and copies all keys of another into it. */
const COPY = `
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB', 'SYNC')
redis.call('SELECT', ARGV[1])
for _, name in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', name, name, 'DB', ARGV[2]) end
`;
const [LIVE, KEPT] = ['0', '1'];

/** The benchmark's own access to a Redis. */
export class Store {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** Keeps the present contents, such as clients and subscriptions, for `restore`. */
  async keep(): Promise<void> {
    await this.call('EVAL', COPY, '0', LIVE, KEPT);
  }

  /** Restores what `keep` has kept: the queues are empty again. No worker may run. */
  async restore(): Promise<void> {
    await this.call('EVAL', COPY, '0', KEPT, LIVE);
  }

  /**
   * Returns the memory of the data. That of connections is left out, because it depends on what they have just sent.
   */
  async usedBytes(): Promise<number> {
    const info = String(await this.call('INFO', 'memory'));
    const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
    return field('used_memory') - field('mem_clients_normal') - field('mem_aof_buffer');
  }

  /** Makes Redis log each command that takes at least this long. */
  async watchSlow(micros: number): Promise<void> {
    await this.call('CONFIG', 'SET', 'slowlog-log-slower-than', String(micros), 'slowlog-max-len', '1000000');
    await this.call('SLOWLOG', 'RESET');
  }

  /**
   * Returns the longest call since `watchSlow`, in ms: of this script and of all others; 0 if Redis has logged none.
   */
  async longestMs(name: ScriptName): Promise<{ scriptMs: number; otherScriptMs: number }> {
    const entries = (await this.call('SLOWLOG', 'GET', '-1')) as RedisReply[][];
    const longest = { scriptMs: 0, otherScriptMs: 0 };
    for (const [, , micros, [command, called] = []] of entries as [
      unknown,
      unknown,
      unknown,
      RedisReply[],
    ][]) {
      if (!/^fcall$/i.test(String(command))) continue;
      const which = scriptOfFunction(String(called)) === name ? 'scriptMs' : 'otherScriptMs';
      longest[which] = Math.max(longest[which], Number(micros) / 1000);
    }
    return longest;
  }

  async call(name: string, ...args: string[]): Promise<RedisReply> {
    const connection = await RedisConnection.open(this.#url);
    try {
      return await connection.call(name, ...args);
    } finally {
      connection.close();
    }
  }
}
