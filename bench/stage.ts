import { type Calls, Helper } from '../harness/measuring/helper.ts';
import { BusProcess } from '../harness/processes/bus_process.ts';
import type { Owner } from '../harness/processes/running_bus.ts';
import { PrivateCluster } from '../harness/redis/private_cluster.ts';
import { PrivateRedis } from '../harness/redis/private_redis.ts';

/** Maximum time for a process to stop by itself, and to write its profile. */
const STOP_MS = 10_000;

/** The processes of one part of the benchmark. They end with the stage, and with this process, however it ends. */
export class Stage implements Owner {
  /** Rejects when a process ends by itself, because the figures are then worthless. */
  readonly lost: Promise<never>;
  readonly #profile: string | undefined;
  readonly #aof: boolean;
  readonly #ends: (() => unknown)[] = [];
  readonly #redis: PrivateRedis[] = [];
  #lose!: (error: Error) => void;
  #closing: Promise<void> | undefined;

  /**
   * `profile`: a directory for the profiles of the processes that `node` starts. `aof`: true if Redis writes an AOF.
   */
  constructor({ profile, aof }: { profile: string | undefined; aof: boolean }) {
    this.#profile = profile;
    this.#aof = aof;
    this.lost = new Promise((_, reject) => {
      this.#lose = reject;
    });
    this.lost.catch(() => {}); // perhaps nobody waits for it at this moment
  }

  /** Starts a Redis that writes no files; with `aof`, one that writes an AOF as under `bin/start`. */
  async redis(): Promise<PrivateRedis> {
    const aof = { appendonly: 'yes', appendfsync: 'everysec', 'auto-aof-rewrite-percentage': '0' };
    const config: Record<string, string> = this.#aof ? aof : { appendonly: 'no' };
    const redis = await PrivateRedis.start({ config });
    this.#redis.push(redis);
    return redis;
  }

  /** Starts a Redis Cluster without replicas, whose nodes write no files. */
  async cluster(masters: number): Promise<PrivateCluster> {
    const cluster = await PrivateCluster.start({ masters, replicas: 0, config: { appendonly: 'no' } });
    this.#redis.push(...cluster.nodes);
    return cluster;
  }

  /** Runs Node in a folder, with arguments such as `web.js` and exactly this environment. */
  node(root: string, args: string[], env: Record<string, string>): BusProcess {
    const profile = this.#profile ? ['--cpu-prof', '--cpu-prof-dir', this.#profile] : [];
    const command = [process.execPath, ...profile, ...args].map(quoted).join(' ');
    const running = new BusProcess({ name: args.join(' '), command }, env, root);
    running.lost.catch(this.#lose);
    this.after(async () => {
      const limit = setTimeout(() => running.signal('SIGKILL'), STOP_MS);
      await running.stop();
      clearTimeout(limit);
    });
    return running;
  }

  /** Starts a process of `bench/processes/` that takes calls. */
  helper<C extends Calls>(file: string): Helper<C> {
    const helper = new Helper<C>(this, new URL(`processes/${file}`, import.meta.url));
    helper.lost.catch(this.#lose);
    return helper;
  }

  after(end: () => unknown): void {
    this.#ends.push(end);
  }

  /** Stops everything. Further calls wait for the same end. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    await Promise.all(this.#ends.map((end) => end()));
    await Promise.all(this.#redis.map((redis) => redis.stop()));
  }
}

/** Quotes a word for the shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
