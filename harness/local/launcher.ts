import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BootError } from '../../src/errors.ts';
import { BEGINS } from '../../src/processes/process.ts';
import { allowedCallbacks } from './allowed_callbacks.ts';
import { Demo } from './demo.ts';
import { Output } from './output.ts';
import { OwnCluster } from './own_cluster.ts';
import { type OwnRedis, startOwnRedis } from './own_redis.ts';
import { parseProcfile } from './procfile.ts';
import { ProcfileProcess } from './procfile_process.ts';
import { childEnvironment, choosePort, isReachedByOthers, type Settings, urlOf } from './settings.ts';
import { makeTourClient, tourClientFile } from './tour_client.ts';
import { welcome } from './welcome.ts';

const stopLimitMs = 30_000;
const startLimitMs = 60_000;
/** Time after which a start says that it waits, and for what. */
const waitSaidMs = 5_000;
// Time within which a second Ctrl-C counts as the first. The terminal sends one to this process, and `npm start` passes
// it on once more.
const sameCtrlCMs = 300;

/** The reason why everything stops. A failure has a message. */
interface Stop {
  failure?: string;
  /**
   * The exit code of bin/start: 0 after a signal, the code of BootError if a person must change something first, or 1.
   */
  status: number;
}

/** Runs Redis, the Procfile's processes and the demo, and stops them in the opposite order. */
export class Launcher {
  readonly #root: string;
  readonly #settings: Settings;
  readonly #output: Output;
  readonly #stop = Promise.withResolvers<Stop>();
  readonly #lines: ReturnType<typeof parseProcfile>;
  #stoppingSinceMs: number | undefined;
  #processes: ProcfileProcess[] = [];
  #redis: OwnRedis | undefined;
  #cluster: OwnCluster | undefined;
  /** True if Redis is new, because no earlier start has made a bus in it. */
  #isFirst = false;
  #demo: Demo | undefined;

  constructor(root: string, settings: Settings) {
    this.#root = root;
    this.#settings = settings;
    this.#lines = parseProcfile(readFileSync(join(root, 'Procfile'), 'utf8'));
    this.#output = new Output([...this.#lines.map((line) => line.name), 'demo', 'redis']);
  }

  /** Runs until a signal, or until a part fails. Resolves with the exit code. */
  async run(): Promise<number> {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => this.#signalled());
    process.stdout.on('error', () => this.#signalled()); // nobody reads the output any more
    const starting = this.#start().catch((error: Error) =>
      this.#stop.resolve({
        failure: error.message,
        status: error instanceof BootError ? error.exitCode : 1,
      }),
    );
    const { failure, status } = await this.#stop.promise;
    this.#stoppingSinceMs ??= performance.now();
    if (failure) console.error(`start: ${failure}`);
    await starting; // otherwise a process that is just being started would stay behind
    await this.#stopAll();
    return status;
  }

  async #start(): Promise<void> {
    const { dataDir, redisUrl, rootKey, rootKeyFrom } = this.#settings;
    if (this.#settings.cluster) {
      this.#cluster = await OwnCluster.start(dataDir, (line) => this.#output.line('redis', line));
    } else if (!redisUrl) {
      this.#redis = await startOwnRedis(dataDir);
      void this.#redis.gone.then(() =>
        this.#stop.resolve({ failure: `the private Redis ended; see ${dataDir}/redis.log`, status: 1 }),
      );
    }
    this.#isFirst = redisUrl === undefined && !existsSync(tourClientFile(dataDir));
    // The port is chosen after Redis has started. If bin/start already runs here, the start of Redis fails, and its
    // error says more than an error about a taken port.
    const port = await choosePort();
    let demoPort: number | undefined;
    if (this.#settings.demo) {
      this.#demo = new Demo(dataDir, (line) => this.#output.line('demo', line));
      demoPort = await this.#demo.receive();
    }
    if (this.#stoppingSinceMs !== undefined) return;
    const parts = { root: this.#root, port, redisUrl: redisUrl ?? (this.#cluster ?? this.#redis)?.url ?? '' };
    const env = childEnvironment(this.#settings, { ...parts, ...(demoPort && { demoPort }) });
    this.#startProcesses(env);
    const busUrl = urlOf(this.#settings, port);
    await this.#untilReady(busUrl);
    if (this.#stoppingSinceMs !== undefined) return;
    const tourClient = await makeTourClient(dataDir, busUrl, rootKey);
    const callbacks = await allowedCallbacks(env);
    const openHost = isReachedByOthers(this.#settings) ? this.#settings.host : undefined;
    const redis = this.#describeRedis();
    this.#output.plain(welcome({ busUrl, openHost, rootKeyFrom, redis, tourClient, callbacks }));
    await this.#demo?.begin(busUrl, rootKey, this.#redis?.url);
    if (this.#demo && !this.#cluster) {
      const where = this.#redis
        ? `in ${dataDir}`
        : `in Redis, with the prefix ${this.#settings.redisPrefix},`;
      this.#output.line('demo', `these clients and topics stay ${where} for the next demo`);
    }
    this.#cluster?.watch();
  }

  #startProcesses(env: NodeJS.ProcessEnv): void {
    this.#processes = this.#lines.map((line) => {
      const started = new ProcfileProcess(line, env, (text) => this.#log(line.name, text));
      void started.ended.then(({ how, code }) =>
        this.#stop.resolve({
          failure: `${line.name} ${how}`,
          status: BootError.isExitCode(code) ? code : 1,
        }),
      );
      return started;
    });
  }

  #log(name: string, text: string): void {
    // Not printed for a new Redis: the warning is meant for a Redis that should have had a bus.
    if (!(this.#isFirst && text.includes(BEGINS))) this.#output.log(name, text);
  }

  // Asks /pulse, because /health answers before web has reached Redis.
  async #untilReady(busUrl: string): Promise<void> {
    const beganAtMs = performance.now();
    let isSaid = false;
    const authorization = `Basic ${Buffer.from(`${this.#settings.rootKey}:x`).toString('base64')}`;
    while (this.#stoppingSinceMs === undefined) {
      const status = await fetch(`${busUrl}/pulse`, {
        headers: { authorization },
        redirect: 'manual',
        signal: AbortSignal.timeout(2_000),
      }).then(
        (response) => response.status,
        () => 'nothing',
      );
      if (typeof status === 'number' && status < 400) return;
      const waitedMs = performance.now() - beganAtMs;
      if (waitedMs > startLimitMs) throw new Error(`GET ${busUrl}/pulse still answers ${status}`);
      if (waitedMs > waitSaidMs && !isSaid) {
        const redis = this.#settings.redisUrl
          ? ' Is the Redis that ROUTEMASTER_REDIS_URL names reachable?'
          : '';
        this.#output.plain(`Waiting for the bus, for ${startLimitMs / 1000} s in all.${redis}`);
        isSaid = true;
      }
      await sleep(25);
    }
  }

  #describeRedis(): string {
    if (this.#cluster) return this.#cluster.description;
    if (!this.#redis) {
      const { redisPrefix } = this.#settings;
      const prefix = redisPrefix === '' ? '' : `, with the prefix ${redisPrefix}`;
      return `the one that ROUTEMASTER_REDIS_URL names${prefix}`;
    }
    const left = this.#redis.adopted ? ', left running by an earlier start' : '';
    return `private, data in ${this.#settings.dataDir}${left}`;
  }

  #signalled(): void {
    const nowMs = performance.now();
    if (this.#stoppingSinceMs === undefined) {
      this.#stoppingSinceMs = nowMs;
      this.#stop.resolve({ status: 0 });
    } else if (nowMs - this.#stoppingSinceMs > sameCtrlCMs) {
      for (const running of this.#processes) running.kill();
    }
  }

  async #stopAll(): Promise<void> {
    // The publisher stops first, so that its last batch is delivered and not left for the next demo.
    await this.#demo?.stopPublishing();
    for (const running of this.#processes) running.stop();
    const last = setTimeout(() => {
      for (const running of this.#processes) running.kill();
    }, stopLimitMs);
    await Promise.all(this.#processes.map((running) => running.ended));
    clearTimeout(last);
    for (const running of this.#processes) running.kill(); // what a process left in its group
    await this.#demo?.stop();
    await Promise.all([this.#redis?.stop(), this.#cluster?.stop()]);
  }
}
