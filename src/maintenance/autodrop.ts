import type { PublicNames } from '../authentication/public_names.ts';
import { clock, sleep } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import { expiringIn, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { DropNotice } from '../subscribing/drop_notice.ts';
import type { RepairParts } from './job_parts.ts';
import { findShortage, findTarget, type Shortage } from './shortage.ts';

/** Maximum batches that one script call drops; 300 take Redis a few milliseconds. */
const MAX_SLICE = 300;

/** Wait between two reads of Redis's memory while Redis frees dropped batches. */
const FREEING_MS = 5;

/** The target is computed again after this many steps, because it is an estimate and other data changes. */
const STEPS_PER_TARGET = 50;

/** A shortage must last this long before it is reported. Concurrent calls can use memory for a moment. */
const MOMENT_MS = 1000;

/** Minimum interval between two logs of the error that dropping does not help. */
const COMPLAIN_EVERY_MS = 60_000;

type Drops = Omit<DropNotice, 'topics'>;

/** What one call dropped of one subscriber. `queued` counts the events of its queue, not of dead letters. */
type Dropped = Reply<'autodrop'>['drops'][number];

/** The state that a script call passes on to the next call. */
type Begun = Omit<Arguments<'autodrop'>, 'maxDeleted'>;

/**
 * The `autodrop` job. When Redis uses more memory than the high mark, it drops the oldest dead letters, then
 * the oldest batches, down to the low mark. If other data fills Redis, so that dropping would not help, it
 * drops nothing and logs an error.
 */
export class Autodrop {
  readonly #partition: Partition;
  readonly #limits: MemoryLimits;
  readonly #recorder: Recorder;
  readonly #log: Log;
  readonly #publicNames: PublicNames;
  #complainedAtMs = Number.NEGATIVE_INFINITY;

  constructor({ partition, publicNames, recorder, log }: RepairParts, limits: MemoryLimits) {
    this.#partition = partition;
    this.#publicNames = publicNames;
    this.#recorder = recorder;
    this.#log = log;
    this.#limits = limits;
  }

  async run(signal: AbortSignal): Promise<void> {
    const shortage = await this.#lastingShortage(signal);
    if (!shortage) return;
    if (shortage.targetBytes === undefined) return this.#complain(shortage);
    this.#log.warn(
      { ...shortage.memory },
      'Redis is short of memory; dropping the oldest dead letters and batches',
    );
    const drops = new Map<string, Drops>();
    try {
      for await (const dropped of this.#dropDownTo(shortage.targetBytes, signal)) {
        const { subscriber, queued, events } = dropped;
        if (queued > 0) this.#recorder.removed(subscriber, queued);
        this.#recorder.autodropped(subscriber, events);
        drops.set(subscriber, join(drops.get(subscriber), dropped));
      }
    } finally {
      await this.#report(drops);
    }
  }

  /**
   * Returns the shortage, if there is one. If dropping could not end it, waits a moment and looks again,
   * since it may have passed.
   */
  async #lastingShortage(signal: AbortSignal): Promise<Shortage | undefined> {
    const shortage = await findShortage(this.#partition, this.#limits);
    if (!shortage || shortage.targetBytes !== undefined) return shortage;
    await sleep(MOMENT_MS, signal);
    return findShortage(this.#partition, this.#limits);
  }

  /** Drops until Redis uses no more than the target, nothing is left, or dropping does not help any more. */
  async *#dropDownTo(firstTarget: number, signal: AbortSignal): AsyncGenerator<Dropped> {
    let target: number | undefined = firstTarget;
    let begun: Begun = { begunTopics: [] };
    for (let steps = 1; !signal.aborted; ) {
      const memory = await readMemory(this.#partition, this.#limits);
      if (target === undefined || memory.used <= target) return;
      if (memory.unfreed > 0) {
        await sleep(FREEING_MS, signal);
        continue;
      }
      if (steps++ % STEPS_PER_TARGET === 0) {
        target = (await findTarget(this.#partition, memory)).targetBytes;
        continue;
      }
      const maxDeleted = await this.#sliceSize(memory.used, target);
      const reply = await this.#partition.run('autodrop', { ...begun, maxDeleted });
      begun = reply;
      if (reply.deleted === 0 && begun.begunBid === undefined) return;
      yield* reply.drops;
    }
  }

  /**
   * Returns the number of batches to drop next: half of the estimate of what is needed, so that later steps
   * can correct it. A fixed number could drop everything, as 100 batches of 400 kB fill a Redis of 40 MB.
   */
  async #sliceSize(used: number, target: number): Promise<number> {
    const [batches, letters] = await this.#partition.command((redis, keys) =>
      Promise.all([redis.zcard(keys.batches_index()), redis.zcard(keys.dead_letters_index())]),
    );
    return Math.min(MAX_SLICE, Math.ceil(((batches + letters) * (used - target)) / used / 2));
  }

  /** Logs at most once a minute that other data fills Redis, and what to do about it. */
  async #complain({ memory: { used, max, highMark }, droppableBytes }: Shortage): Promise<void> {
    if (clock.monotonicMs() - this.#complainedAtMs < COMPLAIN_EVERY_MS) return;
    this.#complainedAtMs = clock.monotonicMs();
    const expiringKeys = expiringIn(await this.#partition.command((redis) => redis.info('keyspace')));
    this.#log.error(
      { used, max, highMark, droppableBytes: Math.round(droppableBytes), expiringKeys },
      'Redis is short of memory, and dropping batches does not help: other data fills it. expiringKeys are idempotency keys ' +
        'of 180 bytes each; if they are many, shorten ROUTEMASTER_IDEMPOTENCY_WINDOW. Otherwise raise maxmemory, or give the ' +
        'bus a Redis of its own',
    );
  }

  /** Logs the drops by the public names of subscribers, since a token can be a credential. */
  async #report(drops: ReadonlyMap<string, Drops>): Promise<void> {
    const nameOf = await this.#publicNames.of(drops.keys());
    for (const [token, drop] of drops)
      this.#log.warn({ subscriber: nameOf(token), ...drop }, 'dropped the oldest batches');
  }
}

function join(one: Drops | undefined, { batches, events, fromMs, toMs }: Drops): Drops {
  return {
    batches: batches + (one?.batches ?? 0),
    events: events + (one?.events ?? 0),
    fromMs: Math.min(fromMs, one?.fromMs ?? fromMs),
    toMs: Math.max(toMs, one?.toMs ?? toMs),
  };
}
