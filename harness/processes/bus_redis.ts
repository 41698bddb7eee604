import { createLog } from '../../src/log.ts';
import { connect } from '../../src/store/connection.ts';
import type { Connection } from '../../src/store/master.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { PrivateCluster } from '../redis/private_cluster.ts';
import { PrivateRedis } from '../redis/private_redis.ts';
import { SentinelTrio } from '../redis/sentinel_trio.ts';
import { ON_CLUSTER, PARTITIONS, REDIS_PREFIX } from '../redis/store.ts';
import { until } from '../until.ts';

export interface BusRedisSettings {
  env?: Record<string, string>;
  /** Lines of redis.conf. */
  redis?: Record<string, string>;
  /** True if Redis has two replicas and three sentinels. */
  sentinels?: boolean;
  /** True if Redis is a cluster of three masters and three replicas. */
  cluster?: boolean;
}

/** The Redis of a running bus, with a connection for tests to look into it. */
export class BusRedis {
  /**
   * The key prefix of the bus. It is empty on a cluster and with several partitions, because the bus then refuses a
   * prefix with a hash tag. It is empty too if the settings have ROUTEMASTER_PARTITIONS.
   */
  readonly prefix: string;
  readonly url: string;
  /** The partitions of the bus. Their number is ROUTEMASTER_PARTITIONS in its settings, by default PARTITIONS. */
  readonly partitions: Partitions;
  readonly #server: PrivateRedis | SentinelTrio | PrivateCluster;
  readonly #connection: Connection;

  /** Starts the Redis that the settings ask for. Resolves when no partition is away. */
  static async start(settings: BusRedisSettings): Promise<BusRedis> {
    const { redis: config = {}, sentinels, cluster = ON_CLUSTER && !sentinels } = settings;
    const Server = cluster ? PrivateCluster : sentinels ? SentinelTrio : PrivateRedis;
    const redis = new BusRedis(await Server.start({ config }), { ...settings, cluster });
    const reached = () => redis.partitions.all.map((each) => each.command((redis) => redis.ping()));
    try {
      await until(() => Promise.all(reached()), { what: 'no partition is away' });
    } catch (error) {
      await redis.stop();
      throw error;
    }
    return redis;
  }

  private constructor(
    server: PrivateRedis | SentinelTrio | PrivateCluster,
    { env = {}, cluster }: BusRedisSettings,
  ) {
    this.#server = server;
    this.url = server.url;
    const wanted = env.ROUTEMASTER_PARTITIONS;
    this.prefix = cluster || wanted !== undefined || PARTITIONS > 1 ? '' : REDIS_PREFIX;
    this.#connection = connect(this.url, createLog('silent', {}));
    const partitions = Number(wanted ?? PARTITIONS);
    this.partitions = Partitions.on(this.#connection, { prefix: this.prefix, partitions });
  }

  /** The only Redis, or the present master of the sentinels. */
  get master(): PrivateRedis {
    if (this.#server instanceof PrivateCluster) throw new Error('a cluster has several masters');
    return this.#server instanceof SentinelTrio ? this.#server.master : this.#server;
  }

  /** Redis with its replicas and sentinels. Throws if the bus has none. */
  get trio(): SentinelTrio {
    if (!(this.#server instanceof SentinelTrio)) throw new Error('the bus has no sentinels');
    return this.#server;
  }

  /** The Redis Cluster of the bus. Throws if the bus runs on a single Redis. */
  get cluster(): PrivateCluster {
    if (!(this.#server instanceof PrivateCluster)) throw new Error('the bus has no cluster');
    return this.#server;
  }

  async stop(): Promise<void> {
    this.#connection.disconnect();
    await this.#server.stop();
  }
}
