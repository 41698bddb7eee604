import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ReplyError } from 'ioredis';
import { keep } from '../processes/keeper.ts';
import { freePort } from '../processes/ports.ts';
import { redisBinary } from './redis_binary.ts';
import { callRedis } from './redis_call.ts';

interface PrivateRedisOptions {
  /** Directory of the files. By default a new temporary directory, which `stop` removes. */
  dir?: string;
  /** Loopback port to listen on (0: any free one), instead of a unix socket in `dir`. */
  port?: number;
  /** The password of clients, which becomes part of `url`. It protects a port from other users of the machine. */
  password?: string;
  /** Further lines of redis.conf, such as `{ maxmemory: '20mb', appendonly: 'yes' }`. */
  config?: Record<string, string>;
}

// Maximum length of a socket's path. The limit is 104 bytes on macOS and 108 on Linux, and Redis silently
// cuts off a longer path.
const socketPathLimit = 100;
const stopLimitMs = 30_000;

/** A private Redis (or Valkey) in its own process group, so that Ctrl-C in the terminal does not reach it. */
export class PrivateRedis {
  readonly dir: string;
  readonly url: string;
  readonly socketPath: string | undefined;
  readonly #temporary: boolean;
  readonly #conf: string;
  #process: ChildProcess | undefined;
  #exited: Promise<unknown> = Promise.resolve();

  /** Starts a Redis that ends with the test. */
  static async during(
    t: { after(end: () => unknown): void },
    options?: PrivateRedisOptions,
  ): Promise<PrivateRedis> {
    const redis = await PrivateRedis.start(options);
    t.after(() => redis.stop());
    return redis;
  }

  /** Resolves when the server has loaded its data. Throws MissingRedisError, or an Error with the log of Redis. */
  static async start(options: PrivateRedisOptions = {}): Promise<PrivateRedis> {
    const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'routemaster-redis-'));
    const useSocket = options.port === undefined && fitsSocket(dir);
    const port = useSocket ? 0 : options.port || (await freePort());
    const redis = new PrivateRedis({ ...options, dir, port }, options.dir === undefined);
    try {
      await redis.#launch();
    } catch (error) {
      await redis.stop();
      throw error;
    }
    return redis;
  }

  private constructor(options: PrivateRedisOptions & { dir: string; port: number }, temporary: boolean) {
    const { port, password = '', config = {} } = options;
    this.dir = resolve(options.dir);
    this.#temporary = temporary;
    this.socketPath = port === 0 ? join(this.dir, 'redis.sock') : undefined;
    this.url = this.socketPath
      ? `unix://${this.socketPath}`
      : `redis://${password && `:${password}@`}127.0.0.1:${port}`;
    const lines: Record<string, string> = {
      dir: JSON.stringify(this.dir),
      port: String(port),
      bind: '127.0.0.1',
      ...(this.socketPath && { unixsocket: JSON.stringify(this.socketPath), unixsocketperm: '700' }),
      ...(this.socketPath === undefined && password && { requirepass: password }),
      save: '',
      'maxmemory-policy': 'noeviction',
      ...config,
    };
    this.#conf = Object.entries(lines)
      .map(([name, value]) => `${name} ${value || '""'}\n`)
      .join('');
  }

  /** The process id. Throws if the server does not run. */
  get pid(): number {
    if (!this.#process?.pid) throw new Error('this Redis does not run');
    return this.#process.pid;
  }

  /**
   * Sends a signal, and waits for the end of the server if the signal ends it. The data stays for
   * `restart()`.
   */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#process?.kill(signal);
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await this.#end();
  }

  /** Stops the server if it runs, and starts it with the same files and the same address. */
  async restart(): Promise<void> {
    await this.kill('SIGTERM');
    await this.#launch();
  }

  /** Ends the server: writes its AOF or, if its directory is temporary, removes that. A repeat is harmless. */
  async stop(): Promise<void> {
    // A test may have suspended the server, to imitate a Redis that hangs.
    this.#process?.kill('SIGCONT');
    await this.kill(this.#temporary ? 'SIGKILL' : 'SIGTERM');
    if (this.#temporary) rmSync(this.dir, { recursive: true, force: true });
  }

  async #end(): Promise<void> {
    const child = this.#process;
    if (!child) return;
    child.ref();
    const last = setTimeout(() => child.kill('SIGKILL'), stopLimitMs);
    await this.#exited;
    clearTimeout(last);
  }

  async #launch(): Promise<void> {
    const binary = redisBinary();
    const log = openSync(join(this.dir, 'redis.log'), 'a', 0o600);
    const child = spawn(binary, ['-'], { stdio: ['pipe', log, log], detached: true });
    closeSync(log);
    child.stdin?.on('error', () => {}); // Redis ended before it read its configuration: #ready says why
    child.stdin?.end(this.#conf);
    this.#process = child;
    const release = child.pid
      ? keep(child.pid, this.#temporary ? 'KILL' : 'TERM', this.#temporary ? this.dir : '')
      : () => {};
    this.#exited = once(child, 'exit')
      .catch(() => {})
      .then(() => {
        release();
        if (this.#process === child) this.#process = undefined;
      });
    await this.#ready();
    child.unref();
  }

  async #ready(): Promise<void> {
    while (this.#process) {
      try {
        await callRedis(this.url, 'PING');
        return;
      } catch (error) {
        if (error instanceof ReplyError && !(error as Error).message.startsWith('LOADING')) throw error;
      }
      await sleep(3);
    }
    const log = readFileSync(join(this.dir, 'redis.log'), 'utf8').trimEnd().split('\n').slice(-10).join('\n');
    throw new Error(`the private Redis in ${this.dir} ended as it started; the end of its log:\n${log}`);
  }
}

function fitsSocket(dir: string): boolean {
  return Buffer.byteLength(join(resolve(dir), 'redis.sock')) < socketPathLimit;
}
