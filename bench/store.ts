import { createHash } from 'node:crypto';
import { RedisConnection, type RedisReply } from '../harness/redis_call.ts';
import { readScripts, type ScriptSource } from '../src/store/script_source.ts';
import type { ScriptName } from '../src/store/store.ts';

/** Copies all keys of one database of Redis into another, which is emptied before. */
const COPY = `
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB', 'SYNC')
redis.call('SELECT', ARGV[1])
for _, name in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', name, name, 'DB', ARGV[2]) end
`;
const [LIVE, KEPT] = ['0', '1'];

/** What the benchmark itself asks of a Redis, and does to it. */
export class Store {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** Keeps all that it holds now: clients and subscriptions, say. */
  async keep(): Promise<void> {
    await this.call('EVAL', COPY, '0', LIVE, KEPT);
  }

  /** Forgets all that came since it was kept: the queues. No worker may run. */
  async restore(): Promise<void> {
    await this.call('EVAL', COPY, '0', KEPT, LIVE);
  }

  /** What data take; not what connections do, which depends on what they just sent. */
  async usedBytes(): Promise<number> {
    const info = String(await this.call('INFO', 'memory'));
    const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
    return field('used_memory') - field('mem_clients_normal') - field('mem_aof_buffer');
  }

  /** Has Redis note each command that takes at least so long. */
  async watchSlow(micros: number): Promise<void> {
    await this.call('CONFIG', 'SET', 'slowlog-log-slower-than', String(micros), 'slowlog-max-len', '1000000');
    await this.call('SLOWLOG', 'RESET');
  }

  /** The longest that one call took since `watchSlow`, in ms: of this script, and of any other; 0 if none was noted. */
  async longestMs(name: ScriptName): Promise<{ scriptMs: number; otherScriptMs: number }> {
    const { lua } = readScripts().find((script) => script.name === name) as ScriptSource;
    const sha = createHash('sha1').update(lua).digest('hex');
    const entries = (await this.call('SLOWLOG', 'GET', '-1')) as RedisReply[][];
    const longest = { scriptMs: 0, otherScriptMs: 0 };
    for (const [, , micros, [command, called] = []] of entries as [
      unknown,
      unknown,
      unknown,
      RedisReply[],
    ][]) {
      if (!/^(?:evalsha|fcall)$/i.test(String(command))) continue;
      const which = String(called) === sha ? 'scriptMs' : 'otherScriptMs';
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
