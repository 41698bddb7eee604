import { type Redis, ReplyError } from 'ioredis';
import { isRefusal, StorageForbidden, StorageFull, StorageUnavailable } from '../errors.ts';
import { RedisCluster } from './redis_cluster.ts';
import { slotOfKey } from './tags.ts';

export type Connection = Redis | RedisCluster;

/**
 * Maximum attempts of a call while the slot of its key moves to another master. All attempts together take about a
 * second.
 */
const MAX_TRIES = 10;

/**
 * The first words of temporary errors of Redis. Such an error is thrown as StorageUnavailable, after which a caller can
 * try again.
 */
const PASSING_WORDS = new Set([
  'LOADING',
  'BUSY',
  'READONLY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MISCONF',
  'NOREPLICAS',
  'MOVED',
  // The slot is being moved to another master, key by key. Each of the two masters has only some of a script's keys.
  'ASK',
  // The master became a replica while it ran a blocking command, such as WAIT.
  'UNBLOCKED',
]);
/**
 * Matches the error of a command that the ACL forbids. If a script calls the command, the error of Redis 7.0 does not
 * begin with NOPERM.
 */
const FORBIDDEN = /^NOPERM|The user executing the script can't /;
const NO_MASTER = /^ERR WAIT cannot be used with replica/;

/**
 * An error of one of these classes comes from a mistake in the bus itself. Errors of ioredis and of the network have
 * other classes.
 */
const MISTAKES = [TypeError, RangeError, ReferenceError, SyntaxError];

interface ConnectionState {
  /** How many times the connection has become ready. If this number grows, Redis may have failed and lost data. */
  count: number;
  /**
   * The error reply because of which there is no connection: Redis refuses the user or password, or is a replica
   * (READONLY). Undefined if there is a connection, or if the connection has failed for another reason since.
   */
  refusal: Error | undefined;
}

const states = new WeakMap<Redis, ConnectionState>();

/** The Redis that has a key: on a cluster, the present master of the key's slot. */
export class Master {
  readonly #connection: Connection;
  readonly #slot: number;
  /** The name of this Redis in errors. */
  readonly name: string;
  /**
   * True after the ACL forbade a command of a script that `Partition.runPermitted` or `Partition.runNotingForbidden`
   * ran. The script stopped half-way, and running it again would make its first changes twice. So the next
   * `runPermitted` first checks that the ACL permits all commands.
   */
  wasForbidden = false;

  constructor(connection: Connection, key: string, name = 'Redis') {
    this.#connection = connection;
    this.#slot = slotOfKey(key);
    this.name = name;
    if (!(connection instanceof RedisCluster)) stateOf(connection);
  }

  /** The connection to the Redis that has the key. On a cluster, throws while the master of the slot is unknown. */
  get redis(): Redis {
    const connection = this.#connection;
    return connection instanceof RedisCluster ? connection.masterOf(this.#slot) : connection;
  }

  /** The address of the master in a cluster. Undefined without a cluster, or while the master is unknown. */
  get address(): string | undefined {
    return this.#connection instanceof RedisCluster ? this.#connection.addressOf(this.#slot) : undefined;
  }

  /**
   * Number of connections that this process has made so far to this Redis or, on a cluster, to all masters together.
   * When this number grows, Redis may have failed and lost data.
   */
  get connections(): number {
    const connection = this.#connection;
    return connection instanceof RedisCluster ? connection.connections : stateOf(connection).count;
  }

  /** The error reply of Redis for which there is no connection. Undefined if there is one, or if no reply says why. */
  get #refusal(): Error | undefined {
    const connection = this.#connection;
    return connection instanceof RedisCluster
      ? connection.refusalAt(this.address)
      : stateOf(connection).refusal;
  }

  get isInCluster(): boolean {
    return this.#connection instanceof RedisCluster;
  }

  /** In a cluster, asks again which master has the slot of the key for which this object was made. Never rejects. */
  async refresh(): Promise<void> {
    if (this.#connection instanceof RedisCluster) await this.#connection.refresh();
  }

  /** Returns the error to throw after the ACL of this Redis has forbidden a command. `cause` is the reply of Redis. */
  forbids(cause: Error): StorageForbidden {
    return new StorageForbidden(cause, this.name, this.address ?? this.name);
  }

  /** Returns the Master for `key`. On a cluster, its Redis may be another one than that of this Master. */
  forKey(key: string): Master {
    return new Master(this.#connection, key, this.name);
  }

  /**
   * Calls `act` with the connection to the master, and returns its result. If the key's slot has moved to another
   * master (MOVED), calls `act` again with the new master, at most MAX_TRIES times in all.
   *
   * Throws StorageFull if Redis is out of memory, StorageForbidden if the ACL forbids a command, and StorageUnavailable
   * if Redis is away or has a temporary error (PASSING_WORDS). Any other error reply is thrown without its property
   * `command`, which may have secrets. Mistakes of the bus itself (MISTAKES) are thrown unchanged.
   */
  async call<T>(act: (redis: Redis) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await act(this.redis);
      } catch (error) {
        const own = this.#ownError(error);
        if (!(this.isInCluster && own instanceof StorageUnavailable)) throw own;
        const found = this.refresh();
        if (tries === MAX_TRIES || !hasMoved(error)) throw own;
        await found;
      }
    }
  }

  /**
   * After an error READONLY, ioredis closes the connection and makes a new one (`reconnectOnError`). Notes the error, so
   * that calls that fail meanwhile do not say that Redis is away.
   */
  #noteReplica(error: Error): void {
    if (this.#connection instanceof RedisCluster || firstWord(error) !== 'READONLY') return;
    stateOf(this.#connection).refusal = error;
  }

  #ownError(error: unknown): unknown {
    const unavailable = (cause: unknown, what = 'is away') =>
      new StorageUnavailable(cause, `${this.name} ${what}`, this.address ?? this.name);
    if (error instanceof StorageUnavailable || MISTAKES.some((each) => error instanceof each)) return error;
    if (!(error instanceof ReplyError)) {
      const refusal = this.#refusal;
      if (!refusal) return unavailable(error);
      const what = isRefusal(refusal) ? 'the user or password' : 'commands';
      return unavailable(withoutCommand(refusal), `refuses ${what} (${firstWord(refusal)})`);
    }
    const { message } = withoutCommand(error as Error);
    if (isForbidden(error)) return this.forbids(error);
    const word = NO_MASTER.test(message) ? 'READONLY' : firstWord(error as Error);
    this.#noteReplica(error as Error);
    if (word === 'OOM') return new StorageFull(error, this.address);
    return PASSING_WORDS.has(word) ? unavailable(error, `refuses commands (${word})`) : error;
  }
}

function stateOf(redis: Redis): ConnectionState {
  const known = states.get(redis);
  if (known) return known;
  const state: ConnectionState = { count: 0, refusal: undefined };
  states.set(redis, state);
  redis.on('ready', () => {
    state.count++;
    state.refusal = undefined;
  });
  redis.on('error', (error) => {
    state.refusal = isRefusal(error) ? error : undefined;
  });
  return state;
}

/**
 * Removes the command that ioredis has added to an error of Redis, and returns the error. The command may have secrets,
 * such as the password of Redis, and errors are logged.
 */
function withoutCommand(error: Error): Error {
  delete (error as { command?: unknown }).command;
  return error;
}

/** Returns the word with which an error of Redis begins, such as WRONGPASS. */
function firstWord({ message }: Error): string {
  return /^\w+/.exec(message)?.[0] ?? '';
}

/** True if this is the error of a command that the ACL forbids. */
export function isForbidden(error: unknown): error is Error {
  return error instanceof ReplyError && FORBIDDEN.test((error as Error).message);
}

function hasMoved(error: unknown): boolean {
  return error instanceof ReplyError && (error as Error).message.startsWith('MOVED ');
}
