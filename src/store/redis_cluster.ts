import type { Cluster, Redis } from 'ioredis';
import { clock, sleep } from '../clock.ts';
import { connectionFailure, isRefusal } from '../errors.ts';
import type { Log } from '../log.ts';
import { sharing } from '../sharing.ts';

/** Minimum time between two refreshes of the table that says which master has which slots. */
const REFRESH_MS = 100;

/** Matches the errors of a connection on which no answer came in time, or which was not made in time. */
const SILENCE = /^Socket timeout|ETIMEDOUT/;
/**
 * A node that did not answer in time counts as hanging for this long, or until a connection to it is made. Each attempt
 * to connect takes at most five seconds, so there is time for several attempts.
 */
const HANGS_MS = 15_000;

const NO_ADDRESSES =
  'the cluster names no address for any slot: assign the slots, and set cluster-announce-ip if there is only one node';

/**
 * The masters of a Redis Cluster, with a connection to each. The class Cluster of ioredis only finds out which master
 * has which slots. It sends no commands, for two reasons: it would repeat a command whose reply was lost, although
 * Redis may have applied it; and it would send a command without a key, such as WAIT, to any one of the masters.
 */
export class RedisCluster {
  readonly #cluster: Cluster;
  readonly #nodes = new Map<string, Redis>();
  readonly #away = new Set<string>();
  /** The last error of each node that refuses the user or password, by the node's address. */
  readonly #refusals = new Map<string, Error>();
  /** By the node's address: when it last failed to answer in time. Lacks nodes that have connected since. */
  readonly #silentAtMs = new Map<string, number>();
  readonly #log: Log;
  #connections = 0;
  #connectionName: string | undefined;
  #refreshedAtMs = Number.NEGATIVE_INFINITY;
  /** Asks which master has which slots, at most once in REFRESH_MS. Resolves even if no node answers. */
  readonly refresh = sharing(() => this.#refresh());

  /** `cluster` must be new, because this class learns of the nodes from events of `cluster`, and must not miss one. */
  constructor(cluster: Cluster, log: Log) {
    this.#cluster = cluster;
    this.#log = log;
    cluster.on('+node', (redis: Redis) => this.#join(redis));
    cluster.on('-node', (redis: Redis) => {
      const address = addressIn(redis);
      if (this.#nodes.get(address) === redis) this.#nodes.delete(address);
      // If the node is still in the cluster, `refresh` adds it again, and `#join` connects to it. This repeats while
      // the node hangs, so that calls go on as soon as it answers.
      if (this.#hangs(address)) void this.refresh();
    });
    cluster.on('node error', (error: Error, address: string) => this.#fail(address, error));
    cluster.on('error', (error: Error) => this.#fail('', error));
    cluster.on('refresh', () => {
      this.#leaveReplicas();
      if (cluster.slots.every((addresses) => addresses.length === 0)) this.#fail('', new Error(NO_ADDRESSES));
    });
  }

  /**
   * Returns the connection to the master of a slot. If the master is unknown, begins to ask for the masters again, and
   * throws. Also throws if the master hangs, because ioredis would delay each command until it has connected again:
   * for up to five seconds.
   */
  masterOf(slot: number): Redis {
    const address = this.addressOf(slot) ?? '';
    const redis = this.#nodes.get(address);
    if (redis && (redis.status === 'ready' || !this.#hangs(address))) return redis;
    if (!redis) void this.refresh();
    throw new Error(`no master of slot ${slot} ${redis ? 'answers' : 'is known'}`);
  }

  #hangs(address: string): boolean {
    return clock.monotonicMs() < (this.#silentAtMs.get(address) ?? Number.NEGATIVE_INFINITY) + HANGS_MS;
  }

  /** Returns host and port of the master of a slot; undefined if the master is not known. */
  addressOf(slot: number): string | undefined {
    return this.#cluster.slots[slot]?.[0];
  }

  /**
   * Returns the error with which the node at `address` refuses the user or password; undefined if it accepts them. If
   * no master is known (`address` is undefined), returns the refusal of any node: it may be the reason why no master is
   * known.
   */
  refusalAt(address: string | undefined): Error | undefined {
    return address === undefined ? this.#refusals.values().next().value : this.#refusals.get(address);
  }

  /**
   * Number of times that this process has connected to a master. When this number grows, a master may have failed and
   * lost data.
   */
  get connections(): number {
    return this.#connections;
  }

  /**
   * Sets the name that CLIENT LIST shows for the present and later connections to masters. A connection keeps its old
   * name if the ACL forbids CLIENT SETNAME.
   */
  async nameConnections(name: string): Promise<void> {
    this.#connectionName = name;
    const ready = [...this.#nodes.values()].filter((redis) => {
      redis.options.connectionName = name;
      return redis.status === 'ready';
    });
    await Promise.allSettled(ready.map((redis) => redis.client('SETNAME', name)));
  }

  /** Calls `listener` once, when the masters are known. */
  once(event: 'ready', listener: () => void): void {
    this.#cluster.once(event, listener);
  }

  disconnect(): void {
    this.#cluster.disconnect();
  }

  async #refresh(): Promise<void> {
    await sleep(Math.max(0, this.#refreshedAtMs + REFRESH_MS - clock.monotonicMs()));
    const failure = await new Promise<unknown>((resolve) => this.#cluster.refreshSlotsCache(resolve));
    this.#refreshedAtMs = clock.monotonicMs();
    // The refresh fails if no known node answers. Perhaps all nodes have new addresses. So ioredis is told to connect
    // anew, to the host names in the URL.
    if (failure && this.#cluster.status === 'ready') this.#cluster.disconnect(true);
  }

  #join(redis: Redis): void {
    const address = addressIn(redis);
    this.#nodes.set(address, redis);
    redis.options.connectionName = this.#connectionName;
    if (this.#hangs(address)) redis.connect().catch(() => {}); // `#fail` gets the error too
    redis.on('ready', () => {
      this.#connections++;
      this.#refusals.delete(address);
      this.#silentAtMs.delete(address);
      if (this.#away.delete(address)) this.#log.info({ node: address }, 'Redis is back');
      this.#away.delete('');
    });
  }

  /**
   * Closes the connections to nodes that have become replicas. Such a node may become a master again, but with less
   * data. This process then connects to it anew, which adds 1 to `connections`, so code that keeps data of Redis in
   * memory reads the data again.
   */
  #leaveReplicas(): void {
    for (const redis of this.#cluster.nodes('slave')) {
      this.#silentAtMs.delete(addressIn(redis));
      if (redis.status !== 'wait') redis.disconnect();
    }
  }

  #fail(address: string, error: Error): void {
    this.#refusals.delete(address);
    if (SILENCE.test(error.message)) this.#silentAtMs.set(address, clock.monotonicMs());
    if (isRefusal(error)) {
      this.#refusals.set(address, error);
      this.#away.add(address);
      this.#log.error({ away: address, reason: error.message }, connectionFailure(error));
      return;
    }
    if (this.#away.has(address)) return;
    this.#away.add(address);
    const node = address && { node: address };
    this.#log.warn({ ...node, reason: error.message }, connectionFailure(error));
  }
}

function addressIn({ options }: Redis): string {
  return `${options.host}:${options.port}`;
}
