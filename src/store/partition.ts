import { hash } from 'node:crypto';
import { type Redis, ReplyError } from 'ioredis';
import { StorageForbidden, StorageLost } from '../errors.ts';
import type { Log } from '../log.ts';
import { readerOf, type ScriptArgument, type ScriptReply, writerOf } from './contract.ts';
import type { Arguments, Reply, ScriptName } from './contracts.ts';
import { foundKey } from './found_key.ts';
import { functionLibrary } from './function_library.ts';
import { Functions } from './functions.ts';
import { DECLARED_KEY, type Keyspace, keyspace, LAYOUT } from './keys.ts';
import { type Connection, Master } from './master.ts';
import { Replicas } from './replicas.ts';
import { readScripts, type ScriptSource, standalone } from './script_source.ts';
import { FIND_AND_RENAME, isWrongType, WrongType, wrongBusKeys } from './wrong_type.ts';

const SCRIPTS = readScripts();
const LIBRARY = functionLibrary(SCRIPTS);

/** The connection on which plain Redis commands are sent. */
export type Commands = Redis;

interface Callable {
  write: (args: never, into: ScriptArgument[]) => void;
  read: (reply: ScriptReply) => unknown;
  /**
   * Returns the script and its modules as one text, and its digest, for EVALSHA and EVAL. Both are made only when Redis
   * refuses functions, because making them takes a third of a millisecond.
   */
  standalone: () => { lua: string; sha: string };
}

export interface PartitionOptions {
  prefix?: string;
  /** The position of the partition in `Partitions.all`; 0 by default. */
  index?: number;
  /** True if the bus has several partitions. Errors then name the partition. */
  hasOthers?: boolean;
  /**
   * Gets a warning if Redis refuses functions, for example because an ACL forbids FCALL, or if too few replicas confirm
   * a write. Gets an error if a listing leaves out keys that another program has written (see `skip`).
   */
  log?: Log;
  /** Number of replicas that must confirm what Redis has written before `run` and `confirmedCommand` resolve. */
  minReplicas?: number;
}

const CALLABLES = Object.fromEntries(SCRIPTS.map((script) => [script.name, callable(script)])) as Record<
  ScriptName,
  Callable
>;

/**
 * A partition, with the scripts that work on it. All calls throw StorageFull if Redis is out of memory,
 * StorageUnavailable if Redis is away or is not ready, and WrongType if another program has written a key of the bus.
 */
export class Partition {
  readonly prefix: string;
  readonly index: number;
  readonly hasOthers: boolean;
  readonly keys: Keyspace;
  readonly master: Master;
  readonly #functions: Functions;
  readonly #replicas: Replicas | undefined;
  readonly #declared: string;
  readonly #log: Log | undefined;

  constructor(
    connection: Connection,
    { prefix = '', index = 0, hasOthers = false, log, minReplicas = 0 }: PartitionOptions = {},
  ) {
    this.prefix = prefix;
    this.index = index;
    this.hasOthers = hasOthers;
    this.keys = keyspace(prefix);
    this.#declared = prefix + DECLARED_KEY;
    this.#log = log;
    this.master = new Master(connection, this.#declared, hasOthers ? `partition ${index}` : 'Redis');
    this.#replicas = minReplicas > 0 ? new Replicas(minReplicas, this.master, log) : undefined;
    this.#functions = new Functions(LIBRARY, this.#declared, { log, replicas: this.#replicas });
  }

  /** The connection to the present master of the partition. Throws while no master is known. */
  get redis(): Redis {
    return this.master.redis;
  }

  /**
   * Number of times that this process has connected to Redis. When it grows, Redis may have failed and lost data, so
   * code that keeps data of Redis in memory must read the data again.
   */
  get connections(): number {
    return this.master.connections;
  }

  /** Runs a script and returns its reply. Throws StorageFull, StorageUnavailable, or the script's error. */
  async run<N extends ScriptName>(name: N, args: Arguments<N>): Promise<Reply<N>> {
    const script = CALLABLES[name];
    const list: ScriptArgument[] = [];
    script.write(args as never, list);
    const reply = await callNaming(this, (redis) =>
      this.#functions.call(redis, name, list, () => this.#evaluate(redis, script, list)),
    );
    return script.read(reply) as Reply<N>;
  }

  /**
   * Like `run`, for scripts that the caller repeats until they succeed. If the ACL forbids a command in the middle of a
   * script, the changes before that command stay. A repetition would make them again, and store an event twice, for
   * example. So after such an error, `runPermitted` throws StorageForbidden and runs no script until the ACL permits
   * all commands.
   */
  async runPermitted<N extends ScriptName>(name: N, args: Arguments<N>): Promise<Reply<N>> {
    if (this.master.wasForbidden) {
      await this.expectCommands();
      this.master.wasForbidden = false;
    }
    return this.runNotingForbidden(name, args);
  }

  /**
   * Like `run`, for scripts with which a worker ends what it has begun. They run even while `runPermitted` refuses to
   * run scripts. If the ACL forbids a command of such a script, `runPermitted` refuses from then on.
   */
  async runNotingForbidden<N extends ScriptName>(name: N, args: Arguments<N>): Promise<Reply<N>> {
    try {
      return await this.run(name, args);
    } catch (error) {
      this.master.wasForbidden ||= error instanceof StorageForbidden;
      throw error;
    }
  }

  /** Loads this release's Redis functions (the scripts). If Redis permits it, removes those of other releases. */
  async prepare(): Promise<void> {
    await this.master.call((redis) =>
      Promise.all([this.#functions.load(redis), this.#functions.removeOthers(redis)]),
    );
  }

  /**
   * Calls `command` and returns its result. Calls it again if Redis replied that the partition has moved to another
   * master.
   */
  command<T>(command: (redis: Redis, keys: Keyspace) => Promise<T>): Promise<T> {
    return callNaming(this, (redis) => command(redis, this.keys));
  }

  /**
   * True if this partition has the data of a bus. The key `schema` is stored when a process prepares the partition, and
   * stays.
   */
  async hasData(): Promise<boolean> {
    return (await this.command((redis, keys) => redis.exists(keys.schema()))) === 1;
  }

  /** Throws StorageLost if this partition has lost the data of the bus. */
  async expectData(): Promise<void> {
    if (!(await this.hasData())) throw new StorageLost(this.master.name);
  }

  /**
   * Throws StorageUnavailable if Redis is away, refuses writes, or forbids a command that scripts need. Changes
   * nothing. Redis also refuses a script that could write while it has too few replicas, or cannot save to its disk.
   */
  async expectCommands(): Promise<void> {
    const { command, error } = await this.run('try_commands', {});
    if (command !== undefined) throw this.master.forbids(new ReplyError(`NOPERM ${command}: ${error}`));
  }

  /**
   * Does the same as `command`, but resolves only when `minReplicas` replicas have all data that the command has read.
   */
  confirmedCommand<T>(command: (redis: Redis, keys: Keyspace) => Promise<T>): Promise<T> {
    return this.command((redis, keys) => {
      const sent = command(redis, keys);
      return this.#replicas ? this.#replicas.resultOnceReplicated(redis, sent) : sent;
    });
  }

  /**
   * Handles an error of a command that reads a key. If another program has stored another type of value under this key,
   * returns undefined, so that a listing can leave out the key. Logs only the pattern of the key, because the key
   * itself may have a credential. Throws any other error.
   */
  readonly skip = (error: unknown): undefined => {
    if (!isWrongType(error)) throw error;
    const [key] = (error as { command?: { args: unknown[] } }).command?.args ?? [];
    this.logSkipped(String(key));
  };

  /** Logs that a listing leaves out a key, which another program has written. Names only the pattern of the key. */
  logSkipped(key: string): void {
    const found = foundKey(key, this.prefix);
    const skipped = this.prefix + (found ? LAYOUT[found.name].pattern : '');
    this.#log?.error({ skipped }, `another program has written keys of the bus. ${FIND_AND_RENAME}`);
  }

  /**
   * Scans a key by SSCAN, HSCAN or a similar command, which `next` sends. Yields what each command finds as one array.
   * An element may come twice.
   */
  async *scan<T>(
    next: (redis: Redis, keys: Keyspace, cursor: string) => Promise<[cursor: string, found: T[]]>,
  ): AsyncGenerator<T[]> {
    let cursor = '0';
    do {
      const [after, found] = await this.command((redis, keys) => next(redis, keys, cursor));
      cursor = after;
      yield found;
    } while (cursor !== '0');
  }

  async #evaluate(redis: Redis, script: Callable, list: ScriptArgument[]): Promise<ScriptReply> {
    const { lua, sha } = script.standalone();
    const evaluate = (command: string, text: string) =>
      redis.callBuffer(command, text, 1, this.#declared, ...list) as Promise<ScriptReply>;
    try {
      return await evaluate('EVALSHA', sha);
    } catch (error) {
      if (!(error instanceof ReplyError && (error as Error).message.startsWith('NOSCRIPT'))) throw error;
      return evaluate('EVAL', lua);
    }
  }
}

/** Calls the master of a partition. In place of an error WRONGTYPE, throws one that names keys. */
async function callNaming<T>({ master, prefix }: Partition, act: (redis: Redis) => Promise<T>): Promise<T> {
  try {
    return await master.call(act);
  } catch (error) {
    if (!isWrongType(error)) throw error;
    throw new WrongType(error, await master.call((redis) => wrongBusKeys(redis, prefix)));
  }
}

function callable(script: ScriptSource): Callable {
  return {
    write: writerOf(script.contract.arguments),
    read: readerOf(script.contract.reply),
    standalone: once(() => {
      const lua = standalone(script);
      return { lua, sha: hash('sha1', lua) };
    }),
  };
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
