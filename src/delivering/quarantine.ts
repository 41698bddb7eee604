import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { PublicNames } from '../authentication/public_names.ts';
import { Backoff } from '../backoff.ts';
import type { Config } from '../config.ts';
import { uid } from '../ids.ts';
import { failureOf, type Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { OwnerLimit } from '../routing/owner_limit.ts';
import type { Reply } from '../store/contracts.ts';
import { bidOf } from '../store/job.ts';
import type { Partition } from '../store/partition.ts';
import { Bell } from './bell.ts';
import type { DeliveryOrder, QuarantineData } from './delivery_order.ts';

/**
 * Interval at which Redis is asked for suspects: batches that may have killed workers. Redis also announces each new
 * suspect by a message, but messages may be lost.
 */
const ASK_EVERY_MS = 30_000;

/**
 * A quarantine process, which delivers batches that may have killed workers, ends after this time without such a batch.
 * If a delivery fails, the batch is usually due again within a minute, so the same process can deliver it.
 */
const IDLE_MS = 60_000;
/**
 * If there are several partitions, a quarantine process ends after this time without a suspect (a batch that may have
 * killed workers). A worker process has only one quarantine process at a time, so suspects of other partitions wait
 * until this one has ended.
 */
const IDLE_WITH_OTHERS_MS = 5000;

interface QuarantineParts {
  /** The program of the quarantine process. The first message to the process is the QuarantineData. */
  file: URL;
  config: Config;
  partition: Partition;
  recorder: Pick<Recorder, 'removed' | 'buried'>;
  publicNames: PublicNames;
  /** Lets this worker process have only one quarantine process at a time, for one of its partitions. */
  oneAtATime: OwnerLimit;
  log: Log;
}

/**
 * Delivers the suspects of a partition: batches that at least two workers were delivering when they died. They are
 * delivered one at a time, by a child of the worker process: the quarantine process. If only the child dies, the batch
 * that it was delivering becomes a dead letter. If the worker process dies too, something else may have killed both, so
 * the batch stays a suspect.
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

  /** `takenOverAtMs` is when the bus took over Redis from a Ruby Routemaster, or undefined if it did not. */
  start(takenOverAtMs: number | undefined): void {
    this.#takenOverAtMs = takenOverAtMs;
    this.#loop = this.#run();
  }

  /**
   * Makes the quarantine process look now for suspects (batches that may have killed workers). If no such process is
   * running, but there are suspects, starts one.
   */
  wake(): void {
    this.#send({ kind: 'look', partition: this.#parts.partition.index });
    this.#bell.ring();
  }

  /**
   * Stops looking for suspects (batches that may have killed workers), and ends the quarantine process. A delivery in
   * this process that takes longer than `graceMs` is given back to the queue. Resolves when the process has ended.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#send({ kind: 'stop', graceMs });
    this.#bell.ring();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { oneAtATime, log } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        if ((await this.#count()) === 0) {
          this.#backoff.reset();
          await this.#bell.wait(ASK_EVERY_MS);
          continue;
        }
        const died = await oneAtATime.run('quarantine', () => this.#deliver());
        if (!died) continue;
        await this.#condemn(died);
        // The next quarantine process may die as soon as it starts, for example because memory is short. Without this
        // wait, processes would be started again and again without a pause.
        await this.#backoff.wait(signal);
      } catch (error) {
        log.warn(failureOf(error), 'cannot look for suspects; trying again');
        await this.#backoff.wait(signal);
      }
    }
  }

  #count(): Promise<number> {
    return this.#parts.partition.command((redis, keys) => redis.llen(keys.jobs_suspect()));
  }

  /**
   * Runs the quarantine process. Resolves when it has ended: with the id of its worker if it crashed or was killed, and
   * with undefined otherwise.
   */
  async #deliver(): Promise<string | undefined> {
    const { file, config, partition, log } = this.#parts;
    // The suspects are counted again. Other worker processes may have delivered them while this one waited for the
    // quarantine process of another partition to end.
    const suspects = await this.#count();
    if (suspects === 0 || this.#stopping.signal.aborted) return undefined;
    log.warn({ suspects }, 'some batches may have killed their workers; delivering them alone');
    const worker = uid();
    const child = fork(fileURLToPath(file), { serialization: 'advanced' });
    this.#child = child;
    const data: QuarantineData = {
      config,
      worker,
      takenOverAtMs: this.#takenOverAtMs,
      partition: partition.index,
      idleMs: partition.hasOthers ? IDLE_WITH_OTHERS_MS : IDLE_MS,
    };
    this.#send(data);
    const [code, signal] = await once(child, 'exit').finally(() => {
      this.#child = undefined;
    });
    if (code === 0 || this.#stopping.signal.aborted) return undefined;
    log.error({ code, signal }, 'a quarantine died');
    return worker;
  }

  /**
   * Makes a dead letter of the batch that the dead `worker` was delivering. Tries until it succeeds or the process
   * stops.
   */
  async #condemn(worker: string): Promise<void> {
    const { partition, log } = this.#parts;
    const { signal } = this.#stopping;
    for (let heldBid: string | undefined; ; ) {
      try {
        // The batch that the dead worker held is looked up only once. If the first `condemn` succeeded but its reply
        // was lost, the worker holds no batch any more, and a second look-up would find nothing.
        heldBid ??= await this.#heldBy(worker);
        return await this.#note(await partition.run('condemn', { worker, heldBid }));
      } catch (error) {
        log.warn(
          failureOf(error),
          'cannot make a dead letter of the batch that killed a quarantine; trying again',
        );
        if (signal.aborted) return;
        await this.#backoff.wait(signal);
      }
    }
  }

  async #heldBy(worker: string): Promise<string | undefined> {
    const { partition } = this.#parts;
    const job = await partition.command((redis, keys) =>
      redis.lindexBuffer(keys.jobs_pending('main', worker), 0),
    );
    return job ? bidOf(job) : undefined;
  }

  async #note({ bid, token, buried, dropped }: Reply<'condemn'>): Promise<void> {
    const { recorder, publicNames, log } = this.#parts;
    if (!token || buried + dropped === 0) return;
    recorder.removed(token, buried + dropped);
    if (buried === 0) return;
    recorder.buried(token, 'killed_worker', buried);
    const line = { subscriber: await publicNames.forLog(token), bid, events: buried, death: 'killed_worker' };
    log.error(line, 'gave up on a batch: it is a dead letter now');
  }

  /** Ignores errors: they mean that the quarantine process has ended, which `#deliver` notices by itself. */
  #send(message: QuarantineData | DeliveryOrder): void {
    if (this.#child?.connected) this.#child.send(message, () => {});
  }
}
