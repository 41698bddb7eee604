import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keep } from '../processes/keeper.ts';
import { freePort } from '../processes/ports.ts';
import { until } from '../until.ts';
import { redisBinary } from './redis_binary.ts';
import { callRedis, type RedisReply } from './redis_call.ts';

interface Watched {
  name: string;
  /** Port of the master on 127.0.0.1. */
  port: number;
  /** Time after which a silent master counts as down. */
  downAfterMs: number;
  /** Number of sentinels that must find the master down. */
  quorum: number;
  /** Further lines of sentinel.conf. */
  lines?: string[];
}

/** A sentinel of Redis (or Valkey) on a free port of 127.0.0.1, which watches one master. */
export class Sentinel {
  readonly port: number;
  readonly #dir: string;
  readonly #name: string;
  readonly #process: ChildProcess;
  readonly #exited: Promise<unknown>;

  /** Resolves when the sentinel answers. */
  static async start(watched: Watched): Promise<Sentinel> {
    const sentinel = new Sentinel(watched, await freePort());
    await until(() => sentinel.#call('PING'), { what: 'the sentinel answers' });
    return sentinel;
  }

  private constructor({ name, port, downAfterMs, quorum, lines = [] }: Watched, own: number) {
    this.port = own;
    this.#name = name;
    this.#dir = mkdtempSync(join(tmpdir(), 'routemaster-sentinel-'));
    const file = join(this.#dir, 'sentinel.conf');
    writeFileSync(
      file,
      `port ${own}
bind 127.0.0.1
dir "${this.#dir}"
sentinel monitor ${name} 127.0.0.1 ${port} ${quorum}
sentinel down-after-milliseconds ${name} ${downAfterMs}
sentinel failover-timeout ${name} 5000
sentinel parallel-syncs ${name} 2
${lines.map((line) => `${line}\n`).join('')}`,
    );
    const log = openSync(join(this.#dir, 'sentinel.log'), 'a', 0o600);
    this.#process = spawn(redisBinary(), [file, '--sentinel'], {
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    const release = this.#process.pid ? keep(this.#process.pid, 'KILL', this.#dir) : () => {};
    this.#exited = once(this.#process, 'exit').then(release, release);
    this.#process.unref();
  }

  /** Resolves with the port of the master that this sentinel knows. */
  async masterPort(): Promise<number> {
    const address = (await this.#call('SENTINEL', 'get-master-addr-by-name', this.#name)) as string[];
    return Number(address[1]);
  }

  /** Resolves with true if it knows this number of replicas that can be promoted, and of other sentinels. */
  async knows(replicas: number, others: number): Promise<boolean> {
    const known = await Promise.all(
      ['replicas', 'sentinels'].map((what) => this.#call('SENTINEL', what, this.#name)),
    );
    const [usable, sentinels] = known.map((list) => (list as RedisReply[]).map(fieldsOf));
    const ready = usable?.filter((each) => each.flags === 'slave' && each['master-link-status'] === 'ok');
    return ready?.length === replicas && sentinels?.length === others;
  }

  /** Makes the sentinel promote a replica although the master is well. */
  async failOver(): Promise<void> {
    await this.#call('SENTINEL', 'FAILOVER', this.#name);
  }

  /** Returns how often the sentinels have replaced the master, by this sentinel's log. */
  get promotions(): number {
    return readFileSync(join(this.#dir, 'sentinel.log'), 'utf8').split('+switch-master').length - 1;
  }

  /** Ends it and removes its files. */
  async stop(): Promise<void> {
    this.#process.ref();
    this.#process.kill('SIGKILL');
    await this.#exited;
    rmSync(this.#dir, { recursive: true, force: true });
  }

  #call(...command: [string, ...string[]]): Promise<RedisReply> {
    return callRedis(`redis://127.0.0.1:${this.port}`, ...command);
  }
}

function fieldsOf(reply: RedisReply): Record<string, string> {
  const texts = reply as string[];
  return Object.fromEntries(texts.flatMap((name, i) => (i % 2 === 0 ? [[name, texts[i + 1] ?? '']] : [])));
}
