import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { Backoff } from '../backoff.ts';
import { clock } from '../clock.ts';
import { BootError } from '../errors.ts';
import { type Log, logged } from '../log.ts';

/**
 * If a process has run for longer than this when it dies, the wait before a replacement starts is the shortest again.
 */
const STEADY_MS = 10_000;

/** Runs `count` web processes on one port. A process that dies is replaced after a growing wait. */
export class WebProcesses {
  readonly #count: number;
  readonly #log: Log;
  readonly #backoff = new Backoff();
  readonly #stopping = new AbortController();
  readonly #listening = new Set<Worker>();

  constructor(count: number, log: Log) {
    this.#count = count;
    this.#log = log;
  }

  start(): void {
    // The kernel distributes new connections among the processes. If the primary process (the parent of the web
    // processes) did this, it might give a connection to a process that was just killed, and the connection would hang.
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    for (let i = 0; i < this.#count; i++) this.#fork();
    this.#log.info({ processes: this.#count }, 'web processes started');
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
    await Promise.all(
      workers.map((worker) => {
        const gone = worker.isDead() ? undefined : once(worker, 'exit');
        worker.process.kill('SIGTERM');
        return gone;
      }),
    );
  }

  #fork(): void {
    const worker = cluster.fork();
    const startedMs = clock.monotonicMs();
    worker.once('listening', () => this.#listening.add(worker));
    worker.once('exit', (code, signal) => {
      this.#listening.delete(worker);
      if (clock.monotonicMs() - startedMs > STEADY_MS) this.#backoff.reset();
      void this.#exited(worker, code, signal);
    });
  }

  async #exited(worker: Worker, code: number, signal: string): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#log.error({ child: worker.process.pid, code, signal }, 'a web process died');
    // If a setting is wrong, for example, a process ends with a BootError. A new process would end in the same way. So
    // all processes end, unless one of them still serves requests.
    if (BootError.isExitCode(code) && this.#listening.size === 0) {
      await this.stop();
      await logged();
      process.exit(code);
    }
    await this.#backoff.wait(this.#stopping.signal);
    if (!this.#stopping.signal.aborted) this.#fork();
  }
}
