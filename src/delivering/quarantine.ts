import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { PublicNames } from '../authentication/public_names.ts';
import { Backoff } from '../backoff.ts';
import type { Config } from '../config.ts';
import { uid } from '../ids.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { Bell } from './bell.ts';
import type { DeliveryOrder, QuarantineData } from './delivery_order.ts';

/** Interval of looking for suspects, because an announcement may be lost. */
const LOOK_EVERY_MS = 10_000;

interface QuarantineParts {
  /** The program of the process. It gets QuarantineData as its first message. */
  file: URL;
  config: Config;
  partitions: Partitions;
  partition: Partition;
  recorder: Pick<Recorder, 'removed' | 'buried'>;
  publicNames: PublicNames;
  log: Log;
}

/**
 * Delivers the suspects of a partition: batches that two workers held when they died. A separate process
 * delivers them, one at a time, as long as there are any. If that process dies, only the batch that it held
 * can be the cause, so that batch becomes a dead letter. If the process that started it dies too, somebody
 * may have killed both. That proves nothing, so no batch is buried.
 */
export class Quarantine {
  readonly #parts: QuarantineParts;
  readonly #bell = new Bell();
  readonly #backoff = new Backoff();
  readonly #stopping = new AbortController();
  #takenOverAtMs: number | undefined;
  #child: ChildProcess | undefined;
  #loop: Promise<void> | undefined;

  constructor(parts: QuarantineParts) {
    this.#parts = parts;
  }

  /** `takenOverAtMs` is when the bus took over from a Ruby Routemaster, if it did. */
  start(takenOverAtMs: number | undefined): void {
    this.#takenOverAtMs = takenOverAtMs;
    this.#loop = this.#run();
  }

  /** Call this when there may be a suspect. */
  wake(): void {
    this.#send({ kind: 'look' });
    this.#bell.ring();
  }

  /**
   * Gives the process `graceMs` to finish its delivery; after that it gives the job back. Resolves when it
   * has ended.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#send({ kind: 'stop', graceMs });
    this.#bell.ring();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { partition, log } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const suspects = await partition.command((redis, keys) => redis.llen(keys.jobs_suspect()));
        this.#backoff.reset();
        if (suspects === 0) await this.#bell.wait(LOOK_EVERY_MS);
        else if (!signal.aborted) await this.#deliver(suspects);
      } catch (error) {
        log.warn({ reason: reasonOf(error) }, 'cannot look for suspects; trying again');
        await this.#backoff.wait(signal);
      }
    }
  }

  /** Resolves when the process has ended, and the batch that killed it is buried. */
  async #deliver(suspects: number): Promise<void> {
    const { file, config, partitions, partition, log } = this.#parts;
    log.warn({ suspects }, 'some batches may have killed their workers; delivering them alone');
    const worker = uid();
    const child = fork(fileURLToPath(file), { serialization: 'advanced' });
    this.#child = child;
    const data: QuarantineData = {
      ...{ config, worker, takenOverAtMs: this.#takenOverAtMs },
      partition: partitions.all.indexOf(partition),
    };
    this.#send(data);
    const [code, signal] = await once(child, 'exit').finally(() => {
      this.#child = undefined;
    });
    if (code === 0 || this.#stopping.signal.aborted) return;
    log.error({ code, signal }, 'a quarantine died');
    while (!(await this.#condemn(worker))) await this.#backoff.wait(this.#stopping.signal);
  }

  /**
   * Buries the batch that the worker held. Returns false if this must be tried again, because Redis did not
   * answer and the process is not stopping.
   */
  async #condemn(worker: string): Promise<boolean> {
    const { partition, recorder, publicNames, log } = this.#parts;
    try {
      const { bid, token, buried } = await partition.run('condemn', { worker });
      if (!token || buried === 0) return true;
      recorder.removed(token, buried);
      recorder.buried(token, 'killed_worker', buried);
      const nameOf = await publicNames.of([token]).catch(() => () => 'unknown, as Redis is away');
      const line = { subscriber: nameOf(token), bid, events: buried, death: 'killed_worker' };
      log.error(line, 'gave up on a batch: it is a dead letter now');
      return true;
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'cannot bury what killed a quarantine; trying again');
      return this.#stopping.signal.aborted;
    }
  }

  /** Sends nothing to a process that has ended; the loop notices its end. */
  #send(message: QuarantineData | DeliveryOrder): void {
    if (this.#child?.connected) this.#child.send(message, () => {});
  }
}
