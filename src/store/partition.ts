import { type Redis, ReplyError } from 'ioredis';
import { StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import { readerOf, type ScriptArgument, type ScriptReply, writerOf } from './contract.ts';
import type { Arguments, Reply, ScriptName } from './contracts.ts';
import { functionLibrary } from './function_library.ts';
import { Functions } from './functions.ts';
import { type Keyspace, keyspace } from './keys.ts';
import { Packed } from './packed.ts';
import { Replicas } from './replicas.ts';
import { readScripts, type ScriptSource, standalone } from './script_source.ts';

const SCRIPTS = readScripts();
const LIBRARY = functionLibrary(SCRIPTS);

/** A connection for plain Redis commands. */
export type Commands = Redis;

type Command = (...args: Exclude<ScriptArgument, Packed>[]) => Promise<ScriptReply>;

interface Callable {
  write: (args: never, into: ScriptArgument[]) => void;
  read: (reply: ScriptReply) => unknown;
  /** Runs the script by EVALSHA. */
  command: Command;
}

export interface PartitionOptions {
  prefix?: string;
  /** The index of the partition in `Partitions.all`; 0 by default. */
  index?: number;
  /** Gets one warning if Redis refuses functions. */
  log?: Log;
  /** Number of replicas that must have what a script writes before `run` resolves; 0 by default. */
  minReplicas?: number;
}

/** First words of Redis's temporary errors, which become StorageUnavailable. */
const PASSING_WORDS = new Set([
  'LOADING',
  'BUSY',
  'READONLY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MISCONF',
  'NOREPLICAS',
  // The error of a blocked command, such as WAIT, when the master becomes a replica.
  'UNBLOCKED',
]);
/** The error of WAIT if Redis has become a replica since the command before it. */
const NO_MASTER = /^ERR WAIT cannot be used with replica/;

/**
 * One full copy of the data layout under its own key prefix, with its connection and its scripts. Calls throw
 * StorageFull if Redis is out of memory, and StorageUnavailable if Redis cannot be reached or is not ready.
 * So callers need not know Redis's own errors.
 */
export class Partition {
  readonly redis: Redis;
  /** The text with which all keys and channels of the partition begin. */
  readonly prefix: string;
  /** Its place among the partitions of the bus. */
  readonly index: number;
  readonly keys: Keyspace;
  readonly #functions: Functions;
  readonly #scripts: Readonly<Record<ScriptName, Callable>>;
  #connections = 0;

  constructor(redis: Redis, { prefix = '', index = 0, log, minReplicas = 0 }: PartitionOptions = {}) {
    this.redis = redis;
    redis.on('ready', () => this.#connections++);
    this.prefix = prefix;
    this.index = index;
    this.keys = keyspace(prefix);
    const schema = this.keys.schema();
    const replicas = minReplicas > 0 ? new Replicas(redis, minReplicas, log) : undefined;
    this.#functions = new Functions(redis, LIBRARY, schema, { log, replicas });
    const callables = SCRIPTS.map((script) => [script.name, callable(redis, script, schema)] as const);
    this.#scripts = Object.fromEntries(callables) as Record<ScriptName, Callable>;
  }

  /**
   * Number of connections that this process has made to Redis. After a new one, Redis may have lost data that
   * this process remembers.
   */
  get connections(): number {
    return this.#connections;
  }

  /** Runs a script and returns its reply. Throws StorageFull, StorageUnavailable, or the script's error. */
  async run<N extends ScriptName>(name: N, args: Arguments<N>): Promise<Reply<N>> {
    const { write, read, command } = this.#scripts[name];
    const list: ScriptArgument[] = [];
    write(args as never, list);
    const instead = () => command(...list.map((each) => (each instanceof Packed ? each.toBuffer() : each)));
    const reply = await this.#functions.call(name, list, instead).catch(rethrow);
    return read(reply) as Reply<N>;
  }

  /**
   * Loads the functions of this release and removes those of others, if Redis permits that. Throws as `run`
   * does.
   */
  async prepare(): Promise<void> {
    await Promise.all([this.#functions.load(), this.#functions.removeOthers()]).catch(rethrow);
  }

  /** Calls `command`, which runs plain Redis commands, and returns its result. Throws as `run` does. */
  async command<T>(command: (redis: Redis, keys: Keyspace) => Promise<T>): Promise<T> {
    return command(this.redis, this.keys).catch(rethrow);
  }
}

function callable(redis: Redis, script: ScriptSource, schema: string): Callable {
  // With the prefix, no command of Redis itself is replaced: Redis has commands called publish and subscribe.
  const name = `script_${script.name}`;
  redis.defineCommand(name, { lua: standalone(script), numberOfKeys: 1 });
  const command = (redis as unknown as Record<string, Command>)[`${name}Buffer`] as Command;
  return {
    write: writerOf(script.contract.arguments),
    read: readerOf(script.contract.reply),
    command: (...args) => command.call(redis, schema, ...args),
  };
}

function rethrow(error: unknown): never {
  if (error instanceof StorageUnavailable) throw error;
  if (!(error instanceof ReplyError)) throw new StorageUnavailable(error);
  // ioredis adds the command with its arguments to the error. Arguments may be secret, and errors are logged.
  delete (error as { command?: unknown }).command;
  const word = /^\w+/.exec((error as Error).message)?.[0] ?? '';
  if (word === 'OOM') throw new StorageFull(error);
  if (PASSING_WORDS.has(word) || NO_MASTER.test((error as Error).message))
    throw new StorageUnavailable(error);
  throw error;
}
