import { setTimeout as sleep } from 'node:timers/promises';
import type { Partition } from '../../src/store/partition.ts';
import { hashTag, slotOf } from '../../src/store/tags.ts';
import { until } from '../until.ts';
import { type ClusterNode, callerOf, isWell, type NodeOptions, ownersOf, startNode } from './cluster_node.ts';
import type { PrivateRedis } from './private_redis.ts';
import { callRedis, type RedisReply } from './redis_call.ts';

const SLOTS = 16_384;
const ASK_AGAIN_MS = 1000;
const SETTLES_WITHIN_MS = 30_000;

interface ClusterOptions extends NodeOptions {
  masters?: number;
  /** Number of replicas of each master. */
  replicas?: number;
}

/** Returns the hash tag of a partition, which all its keys have. */
export const tagOf = ({ prefix }: Partition): string => hashTag(prefix) ?? '';

/** A Redis Cluster on free ports of 127.0.0.1: by default three masters that share the slots, each with a replica. */
export class PrivateCluster {
  readonly #nodes: ClusterNode[];
  readonly #hasReplicas: boolean;
  readonly #password: string;

  /** Resolves when all slots are served and all replicas are connected, so that a failover can succeed. */
  static async start({
    masters = 3,
    replicas = 1,
    ...options
  }: ClusterOptions = {}): Promise<PrivateCluster> {
    const count = masters * (replicas + 1);
    // Tries twice: before a node listens, a connection of another node can take its port.
    const start = () => startNode(options).catch(() => startNode(options));
    const nodes = await Promise.all(Array.from({ length: count }, start));
    const cluster = new PrivateCluster(nodes, replicas > 0, options.password ?? '');
    await cluster.#form(masters);
    return cluster;
  }

  private constructor(nodes: ClusterNode[], hasReplicas: boolean, password: string) {
    this.#nodes = nodes;
    this.#hasReplicas = hasReplicas;
    this.#password = password;
  }

  get nodes(): PrivateRedis[] {
    return this.#nodes.map(({ redis }) => redis);
  }

  /** The URL of the cluster. It names three of the nodes. */
  get url(): string {
    return this.urlWith(this.#password && `:${this.#password}@`);
  }

  /** Returns the URL with these credentials before the hosts, such as `user:password@`. */
  urlWith(credentials: string): string {
    const hosts = this.#nodes.slice(0, 3).map(({ port }) => `127.0.0.1:${port}`);
    return `redis+cluster://${credentials}${hosts.join(',')}`;
  }

  /** Resolves with the node that is the master of a hash tag or key, by the newest map that a node has. */
  async masterOf(tag: string): Promise<PrivateRedis> {
    const port = await this.#masterPort(slotOf(tag));
    return (this.#nodes.find((node) => node.port === port) as ClusterNode).redis;
  }

  /** Resolves with all masters. */
  async masters(): Promise<PrivateRedis[]> {
    const roles = await Promise.all(this.#nodes.map((node) => callerOf(node)('ROLE')));
    return this.nodes.filter((_, index) => (roles[index] as RedisReply[])[0] === 'master');
  }

  /** Resolves with a replica of a master, once the master reports a healthy one. A replica may have just come back. */
  async replicaOf(master: PrivateRedis): Promise<PrivateRedis> {
    const { id } = this.#node(master);
    return until(
      async () => {
        const lines = String(await callRedis(master.url, 'CLUSTER', 'NODES')).split('\n');
        const replica = lines
          .map((line) => line.split(' '))
          .find(([, , flags, of]) => of === id && flags === 'slave');
        return this.#nodes.find((node) => node.id === replica?.[0])?.redis;
      },
      { timeoutMs: SETTLES_WITHIN_MS, everyMs: 20, what: 'a master has a replica' },
    );
  }

  /** Resolves when another node than this one is the master of a hash tag. */
  async failsOver(tag: string, from: PrivateRedis): Promise<void> {
    const { port } = this.#node(from);
    const what = 'a replica is promoted';
    const other = async () => (await this.#masterPort(slotOf(tag))) !== port;
    await until(other, { timeoutMs: SETTLES_WITHIN_MS, everyMs: 20, what });
  }

  /** Resolves when a replica follows the master of a hash tag. */
  async isFollowed(tag: string): Promise<void> {
    const follows = async () => {
      const info = await callRedis((await this.masterOf(tag)).url, 'INFO', 'replication');
      return /^slave\d+:.*state=online/m.test(String(info));
    };
    await until(follows, { timeoutMs: SETTLES_WITHIN_MS, everyMs: 20, what: 'a replica follows the master' });
  }

  /**
   * Makes a replica the master while its master is well. It asks again and again, because the other masters vote for a
   * replica only if the last failover of its master is long enough ago. It asks with FORCE, because without it the
   * master takes no writes for up to ten seconds while the votes are missing. FORCE may lose the last writes.
   */
  async failOver(tag: string): Promise<void> {
    const master = await this.masterOf(tag);
    const replica = await this.replicaOf(master);
    const promoted = this.failsOver(tag, master).then(() => true);
    do {
      // A replica that has just become a master refuses this command, which is fine. After any other failure,
      // `promoted` rejects.
      await callRedis(replica.url, 'CLUSTER', 'FAILOVER', 'FORCE').catch(() => {});
    } while (!(await Promise.race([promoted, sleep(ASK_AGAIN_MS, false)])));
  }

  /**
   * Kills the master of a hash tag. For `aloneMs` before that, its replica is stopped, so the replica lacks all writes
   * of this time. Resolves with the killed master.
   */
  async crash(tag: string, aloneMs: number): Promise<PrivateRedis> {
    const master = await this.masterOf(tag);
    const replica = await this.replicaOf(master);
    await replica.kill('SIGSTOP');
    // Cuts the connection to the stopped replica. Otherwise the kernel would keep the writes for it.
    await callRedis(master.url, 'CLIENT', 'KILL', 'TYPE', 'replica');
    await sleep(aloneMs);
    await master.kill('SIGKILL');
    await replica.kill('SIGCONT');
    return master;
  }

  /** Moves the slot of a hash tag to another master key by key, as `redis-cli --cluster reshard` does. */
  async moveSlot(tag: string, to: PrivateRedis): Promise<void> {
    const slot = String(slotOf(tag));
    const [source, target] = [this.#node(await this.masterOf(tag)), this.#node(to)];
    const set = (node: ClusterNode, ...how: string[]) => callerOf(node)('CLUSTER', 'SETSLOT', slot, ...how);
    await set(target, 'IMPORTING', source.id);
    await set(source, 'MIGRATING', target.id);
    for (;;) {
      const keys = (await callerOf(source)('CLUSTER', 'GETKEYSINSLOT', slot, '100')) as string[];
      if (keys.length === 0) break;
      const options = ['0', '5000', ...(this.#password ? ['AUTH', this.#password] : []), 'KEYS', ...keys];
      await callerOf(source)('MIGRATE', '127.0.0.1', String(target.port), '', ...options);
    }
    for (const node of [target, source]) await set(node, 'NODE', target.id);
  }

  /** Starts a killed node again. Resolves when the cluster is whole again (`isWhole`). */
  async rejoins(redis: PrivateRedis): Promise<void> {
    await redis.restart();
    await this.isWhole();
  }

  /** Resolves when all nodes report that the cluster is well, and all replicas are connected to their masters. */
  async isWhole(): Promise<void> {
    const what = 'the cluster is whole';
    await until(
      async () =>
        (await Promise.all(this.#nodes.map((node) => isWell(node, this.#hasReplicas)))).every(Boolean),
      {
        ...{ timeoutMs: SETTLES_WITHIN_MS, everyMs: 20, what },
      },
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map(({ redis }) => redis.stop()));
  }

  async #form(masters: number): Promise<void> {
    const [first] = this.#nodes as [ClusterNode];
    const width = SLOTS / masters;
    for (const [index, node] of this.#nodes.entries()) {
      const call = callerOf(node);
      // Gives each node its own epoch. Otherwise the nodes would first have to agree on different epochs, which takes
      // time.
      await call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
      if (index > 0) await call('CLUSTER', 'MEET', '127.0.0.1', String(first.port), String(first.busPort));
      const [from, to] = [Math.ceil(index * width), Math.ceil((index + 1) * width) - 1];
      if (index < masters) await call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
    }
    for (const [index, node] of this.#nodes.entries()) {
      const { id } = this.#nodes[index % masters] as ClusterNode;
      // Fails until the node has heard of its master.
      const what = 'a node is a replica';
      if (index >= masters) await until(() => callerOf(node)('CLUSTER', 'REPLICATE', id), { what });
    }
    await this.isWhole();
  }

  #node(redis: PrivateRedis): ClusterNode {
    return this.#nodes.find((node) => node.redis === redis) as ClusterNode;
  }

  /**
   * Resolves with the port of a slot's master. If nodes name different masters, the one with the highest epoch
   * counts.
   */
  async #masterPort(slot: number): Promise<number> {
    const maps = await Promise.allSettled(this.#nodes.map((node) => callerOf(node)('CLUSTER', 'NODES')));
    const owners = maps.flatMap((map) =>
      map.status === 'fulfilled' ? ownersOf(String(map.value), slot) : [],
    );
    const [newest] = owners.sort((one, other) => other.epoch - one.epoch);
    return newest?.port ?? 0;
  }
}
