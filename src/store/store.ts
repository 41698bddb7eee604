import { type Redis, ReplyError } from 'ioredis';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import { functionLibrary } from './function_library.ts';
import { Functions } from './functions.ts';
import { type Keyspace, keyspace } from './keys.ts';
import { Packed } from './packed.ts';
import { readScripts } from './script_source.ts';
import type { ScriptArgument, ScriptReply } from './script_values.ts';

/** Redis's plain commands. */
export type Commands = Redis;

/** The scripts of `lua/`, each named after its file. */
export type ScriptName =
  | 'ack'
  | 'acquire'
  | 'adopt'
  | 'autodrop'
  | 'bury'
  | 'count'
  | 'drop_queue'
  | 'enqueue'
  | 'heartbeat'
  | 'nack'
  | 'nonce_counts'
  | 'nonce_keys'
  | 'publish'
  | 'purge'
  | 'remove_subscriber'
  | 'remove_topic'
  | 'report'
  | 'retire'
  | 'revive'
  | 'rotate_secret'
  | 'schedule'
  | 'scrub'
  | 'spend'
  | 'subscribe'
  | 'sweep_batches'
  | 'sweep_gauges'
  | 'sweep_jobs'
  | 'sweep_lanes'
  | 'sweep_workers'
  | 'takeover'
  | 'unsubscribe'
  | 'upgrade';

/**
 * Those that are called for every publication or delivery are functions, where Redis takes them: INTERNALS.md tells what that gains.
 */
const HOT: ReadonlySet<string> = new Set<ScriptName>(['acquire', 'publish']);

type Command = (...args: Exclude<ScriptArgument, Packed>[]) => Promise<ScriptReply>;

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
  readonly #functions: Functions;
  readonly #scripts: ReadonlyMap<string, Command>;

  /** `log` is told, once, of what Redis refuses and the bus does without. */
  constructor(redis: Redis, { prefix = '', log }: { prefix?: string; log?: Log } = {}) {
    this.redis = redis;
    this.keys = keyspace(prefix);
    const scripts = readScripts();
    const hot = scripts.filter(({ name }) => HOT.has(name));
    this.#functions = new Functions(redis, functionLibrary(hot), this.keys.schema(), log);
    this.#scripts = new Map(
      scripts.map((script) => [script.name, define(redis, script, this.keys.schema())]),
    );
  }

  /** Runs a script. Throws StorageFull, StorageUnavailable, or the script's own error. */
  run(name: ScriptName, ...args: ScriptArgument[]): Promise<ScriptReply> {
    const script = this.#scripts.get(name);
    if (!script) throw new Error(`there is no lua/${name}.lua`);
    const run = () => script(...args.map((each) => (each instanceof Packed ? each.toBuffer() : each)));
    if (!this.#functions.has(name)) return run().catch(rethrow);
    return this.#functions.call(name, args, run).catch(rethrow);
  }

  /** Has Redis know what this release calls, if it takes it, and forget what others called. Throws as `run` does. */
  async prepare(): Promise<void> {
    await Promise.all([this.#functions.load(), this.#functions.removeOthers()]).catch(rethrow);
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
