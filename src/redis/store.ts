import { type Redis, ReplyError } from 'ioredis';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import { type Keyspace, keyspace } from './keys.ts';
import { readScripts } from './script_source.ts';

/** Redis's plain commands. */
export type Commands = Redis;

/** An argument of a script: text, a number, or bytes. */
export type ScriptArgument = string | number | Buffer;

/** What a script answers: bytes, numbers, lists of these. */
export type ScriptReply = Buffer | number | null | ScriptReply[];

/** The scripts of `lua/`, each named after its file. */
export type ScriptName =
  | 'ack'
  | 'acquire'
  | 'autodrop'
  | 'count'
  | 'drop_queue'
  | 'enqueue'
  | 'heartbeat'
  | 'nack'
  | 'publish'
  | 'remove_subscriber'
  | 'remove_topic'
  | 'report'
  | 'retire'
  | 'schedule'
  | 'scrub'
  | 'subscribe'
  | 'takeover'
  | 'unsubscribe';

type Command = (...args: ScriptArgument[]) => Promise<ScriptReply>;

/** What Redis answers while it cannot work, by the first word of its error: it may soon. */
const PASSING = new Set([
  'LOADING',
  'BUSY',
  'READONLY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MISCONF',
  'NOREPLICAS',
]);

/**
 * One partition: a connection, its keys, its scripts.
 * Every call fails with StorageFull or StorageUnavailable where that is the reason, so that callers need not know Redis's errors.
 */
export class Store {
  readonly redis: Redis;
  readonly keys: Keyspace;
  readonly #scripts: ReadonlyMap<string, Command>;

  constructor(redis: Redis, prefix = '') {
    this.redis = redis;
    this.keys = keyspace(prefix);
    this.#scripts = new Map(
      readScripts().map((script) => [script.name, define(redis, script, this.keys.schema())]),
    );
  }

  /** Runs a script. Throws StorageFull, StorageUnavailable, or the script's own error. */
  run(name: ScriptName, ...args: ScriptArgument[]): Promise<ScriptReply> {
    const script = this.#scripts.get(name);
    if (!script) throw new Error(`there is no lua/${name}.lua`);
    return script(...args).catch(rethrow);
  }

  /** Runs plain commands. Throws as `run` does. */
  async command<T>(command: (redis: Redis, keys: Keyspace) => Promise<T>): Promise<T> {
    return command(this.redis, this.keys).catch(rethrow);
  }
}

function define(
  redis: Redis,
  script: { name: string; lua: string; keys: unknown[] },
  schema: string,
): Command {
  // Not by its bare name: publish and subscribe are Redis's own commands too, which it would replace.
  const name = `script_${script.name}`;
  redis.defineCommand(name, { lua: script.lua, numberOfKeys: script.keys.length });
  const command = (redis as unknown as Record<string, Command>)[`${name}Buffer`];
  return (...args) => (command as Command).call(redis, schema, ...args);
}

function rethrow(error: unknown): never {
  if (!(error instanceof ReplyError)) throw new StorageUnavailable(error);
  // ioredis hangs the command on it, with arguments that may be secret: who logs the error would log these.
  delete (error as { command?: unknown }).command;
  const word = /^\w+/.exec((error as Error).message)?.[0] ?? '';
  if (word === 'OOM') throw new StorageFull(error);
  if (PASSING.has(word)) throw new StorageUnavailable(error);
  throw error;
}
