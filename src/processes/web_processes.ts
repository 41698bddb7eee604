import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { Backoff } from '../backoff.ts';
import { clock } from '../clock.ts';
import { BootError } from '../errors.ts';
import { type Log, logged } from '../log.ts';

/**
 * A process that has run for longer than this has started well. When it dies, the wait for its replacement is short
 * again.
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
    // The kernel distributes new connections among the processes. If the primary process did this, a connection would
    // hang when given to a process that was just killed.
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
    // After EXIT_CODE a person must act, because a replacement would fail too. So all processes end, unless another one
    // serves requests. If one does, the cause may be temporary: for example, during an upgrade a process of the former
    // release may find data in a newer layout.
    if (code === BootError.EXIT_CODE && this.#listening.size === 0) {
      await this.stop();
      await logged();
      process.exit(BootError.EXIT_CODE);
    }
    await this.#backoff.wait(this.#stopping.signal);
    if (!this.#stopping.signal.aborted) this.#fork();
  }
}
