import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../until.ts';
import { PrivateRedis } from './private_redis.ts';
import { callRedis } from './redis_call.ts';
import { Sentinel } from './sentinel.ts';

const NAME = 'shop';
const SENTINELS = 3;
/**
 * Time after which a silent master counts as down. A sentinel connects to a new master up to a second after it learned
 * of it (Redis 7.0.15). With a limit of one second it would find the new master down by then, and replace it while it
 * lives. What that master and the other replica have stored meanwhile would be lost.
 */
const DOWN_AFTER_MS = 2000;
const FAILS_OVER_WITHIN_MS = 30_000;

interface TrioOptions {
  replicas?: number;
  /** Lines of redis.conf of each Redis. */
  config?: Record<string, string>;
}

/** A master with replicas, and three sentinels that promote a replica if the master is silent for two seconds. */
export class SentinelTrio {
  readonly #nodes: Map<number, PrivateRedis>;
  readonly #sentinels: Sentinel[];
  #masterPort: number;

  /** Resolves when the sentinels know all replicas and each other, so that a failover can succeed. */
  static async start({ replicas = 2, config = {} }: TrioOptions = {}): Promise<SentinelTrio> {
    const master = await startNode(config);
    const port = portOf(master);
    const others = await Promise.all(
      Array.from({ length: replicas }, () => startNode({ ...config, replicaof: `127.0.0.1 ${port}` })),
    );
    const nodes = new Map([master, ...others].map((node) => [portOf(node), node]));
    await until(async () => (await onlineReplicas(master)) === replicas, { what: 'the replicas follow' });
    const watched = { name: NAME, port, downAfterMs: DOWN_AFTER_MS, quorum: 2 };
    const sentinels = await Promise.all(Array.from({ length: SENTINELS }, () => Sentinel.start(watched)));
    const trio = new SentinelTrio(nodes, sentinels, port);
    await trio.#isWhole();
    return trio;
  }

  private constructor(nodes: Map<number, PrivateRedis>, sentinels: Sentinel[], masterPort: number) {
    this.#nodes = nodes;
    this.#sentinels = sentinels;
    this.#masterPort = masterPort;
  }

  /** The URL for a bus. It names the sentinels, which tell where the master is. */
  get url(): string {
    const hosts = this.#sentinels.map(({ port }) => `127.0.0.1:${port}`);
    return `redis+sentinel://${hosts.join(',')}/${NAME}`;
  }

  get master(): PrivateRedis {
    return this.#nodes.get(this.#masterPort) as PrivateRedis;
  }

  get replicas(): PrivateRedis[] {
    return [...this.#nodes].flatMap(([port, node]) => (port === this.#masterPort ? [] : node));
  }

  /** Returns how often the sentinels have replaced the master. */
  get promotions(): number {
    return Math.max(...this.#sentinels.map((each) => each.promotions));
  }

  /**
   * Stops the replicas for `aloneMs`, and then kills the master. So the replicas lack what the master stored in this
   * time. Resolves with the master.
   */
  async crash(aloneMs: number): Promise<PrivateRedis> {
    const { master, replicas } = this;
    await Promise.all(replicas.map((each) => each.kill('SIGSTOP')));
    // Cuts the connections of the stopped replicas. Otherwise the kernel would keep what the master sends to them, and
    // they would get it later.
    await callRedis(master.url, 'CLIENT', 'KILL', 'TYPE', 'replica');
    await sleep(aloneMs);
    await master.kill('SIGKILL');
    await Promise.all(replicas.map((each) => each.kill('SIGCONT')));
    return master;
  }

  /** Resolves when a sentinel names another master than before. */
  async failsOver(): Promise<void> {
    const what = 'the sentinels promote a replica';
    const other = async () => (await this.#masterPorts()).find((port) => port !== this.#masterPort);
    this.#masterPort = await until(other, { timeoutMs: FAILS_OVER_WITHIN_MS, everyMs: 20, what });
  }

  /** Makes the sentinels promote a replica while the master is well. */
  async failOver(): Promise<void> {
    await this.#sentinels[0]?.failOver();
    await this.failsOver();
  }

  /** Starts a killed Redis again, as a replica. Resolves when the sentinels know all replicas and each other again. */
  async rejoins(node: PrivateRedis): Promise<void> {
    // A sentinel that does not know of the failover yet would lead clients to this Redis, which starts empty.
    await until(() => this.#agree(), {
      timeoutMs: FAILS_OVER_WITHIN_MS,
      what: 'all sentinels name one master',
    });
    await node.restart();
    await callRedis(node.url, 'REPLICAOF', '127.0.0.1', String(this.#masterPort));
    await this.#isWhole();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#sentinels.map((each) => each.stop()));
    await Promise.all([...this.#nodes.values()].map((each) => each.stop()));
  }

  async #isWhole(): Promise<void> {
    const replicas = this.#nodes.size - 1;
    const follow = async () => {
      if (!(await this.#agree())) return false;
      const online = await onlineReplicas(this.master);
      const knowing = await Promise.all(this.#sentinels.map((each) => each.knows(replicas, SENTINELS - 1)));
      return online === replicas && knowing.every(Boolean);
    };
    const timing = { timeoutMs: FAILS_OVER_WITHIN_MS, everyMs: 20 };
    await until(follow, { ...timing, what: 'all follow the master, and the sentinels know them' });
  }

  /** Resolves with true if all sentinels name one master, and notes it: they may have replaced one that is well. */
  async #agree(): Promise<boolean> {
    const [port = 0, ...others] = await this.#masterPorts();
    if (others.some((other) => other !== port)) return false;
    this.#masterPort = port;
    return true;
  }

  #masterPorts(): Promise<number[]> {
    return Promise.all(this.#sentinels.map((each) => each.masterPort()));
  }
}

function startNode(config: Record<string, string>): Promise<PrivateRedis> {
  return PrivateRedis.start({ port: 0, config: { 'repl-diskless-sync-delay': '0', ...config } });
}

const portOf = ({ url }: PrivateRedis) => Number(new URL(url).port);

async function onlineReplicas({ url }: PrivateRedis): Promise<number> {
  const info = String(await callRedis(url, 'INFO', 'replication'));
  return [...info.matchAll(/^slave\d+:.*state=online/gm)].length;
}
