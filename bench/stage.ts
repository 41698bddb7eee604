import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Calls, Helper } from '../harness/measuring/helper.ts';
import { keep } from '../harness/processes/keeper.ts';
import { PrivateCluster } from '../harness/redis/private_cluster.ts';
import { PrivateRedis } from '../harness/redis/private_redis.ts';

/** Maximum time for a process to stop by itself, and to write its profile. */
const STOP_MS = 10_000;
const LAST_LINES = 10;

export interface Running {
  pid: number;
  /** Resolves with the next line that contains this text. */
  said: (text: string) => Promise<string>;
  stop: () => Promise<void>;
  /** Ends the process as a crash does, by SIGKILL. */
  kill: () => Promise<void>;
}

/** The processes of one part of the benchmark. They end with the stage, and with this process, however it ends. */
export class Stage {
  /** Rejects when a process ends by itself, because the figures are then worthless. */
  readonly lost: Promise<never>;
  readonly #profile: string | undefined;
  readonly #aof: boolean;
  readonly #running = new Map<ChildProcess, (signal: NodeJS.Signals) => Promise<void>>();
  readonly #redis: PrivateRedis[] = [];
  #lose!: (error: Error) => void;
  #closing: Promise<void> | undefined;

  /** `profile`: a directory for the profiles of the processes that `node` starts. `aof`: true if Redis writes an AOF. */
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
  node(root: string, args: string[], env: Record<string, string>): Running {
    const profile = this.#profile ? ['--cpu-prof', '--cpu-prof-dir', this.#profile] : [];
    const child = spawn(process.execPath, [...profile, ...args], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const lines = new Lines(child);
    const release = child.pid ? keep(child.pid, 'KILL') : () => {};
    child.once('exit', release);
    const end = this.#own(child, args.join(' '), () => lines.last());
    return {
      pid: child.pid ?? 0,
      said: (text) => lines.said(text),
      stop: () => end('SIGTERM'),
      kill: () => end('SIGKILL'),
    };
  }

  /** Starts a process of `bench/processes/` that takes calls; it ends with the channel to it. */
  helper<C extends Calls>(file: string): Helper<C> {
    const child = fork(join(import.meta.dirname, 'processes', file), {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      detached: true,
    });
    const lines = new Lines(child);
    this.#own(child, file, () => lines.last());
    return new Helper<C>(child);
  }

  /** Stops everything. Further calls wait for the same end. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    await Promise.all([...this.#running.values()].map((end) => end('SIGTERM')));
    await Promise.all(this.#redis.map((redis) => redis.stop()));
  }

  /** Returns the function that ends the process. */
  #own(child: ChildProcess, name: string, last: () => string): (signal: NodeJS.Signals) => Promise<void> {
    let told = false;
    const gone = once(child, 'exit').catch((error: Error) => [error.message]);
    const end = async (signal: NodeJS.Signals) => {
      told = true;
      child.kill(signal);
      const limit = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await gone;
      clearTimeout(limit);
    };
    this.#running.set(child, end);
    void gone.then(([code, signal]) => {
      this.#running.delete(child);
      if (!told && !this.#closing) this.#lose(new Error(`${name} ended (${signal ?? code}):\n${last()}`));
    });
    return end;
  }
}

/** The output of a process. It must be read, or the process would block on a full pipe. */
class Lines {
  readonly #last: string[] = [];
  readonly #waiting = new Map<string, (line: string) => void>();

  constructor(child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.#take(line));
    }
  }

  said(text: string): Promise<string> {
    return new Promise((resolve) => this.#waiting.set(text, resolve));
  }

  last(): string {
    return this.#last.join('\n');
  }

  #take(line: string): void {
    this.#last.push(line);
    if (this.#last.length > LAST_LINES) this.#last.shift();
    for (const [text, resolve] of this.#waiting) {
      if (!line.includes(text)) continue;
      this.#waiting.delete(text);
      resolve(line);
    }
  }
}
