import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import { clock, pause } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Arguments, Reply } from '../store/contracts.ts';
import { expiringIn, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { DropNotice } from '../subscribing/drop_notice.ts';
import { findShortage, findTarget, type Shortage } from './shortage.ts';

/** How many batches one script call drops at most: a few milliseconds of Redis. */
const MAX_SLICE = 300;

/** How long to wait for Redis to free what was dropped before its memory is read again. */
const FREEING_MS = 5;

/** The target is an estimate, and other data comes and goes: it is computed again after this many steps. */
const STEPS_PER_TARGET = 50;

/** Calls of many clients at once can need much memory for a moment. A shortage that lasts longer is a real one. */
const MOMENT_MS = 1000;

/** The error that dropping does not help is logged at most this often. */
const COMPLAIN_EVERY_MS = 60_000;

export interface AutodropSettings extends MemoryLimits {
  /** ROUTEMASTER_CLIENTS. */
  clients: readonly string[];
}

type Drops = Omit<DropNotice, 'topics'>;

/** What one script call dropped of one subscriber; `queued` of the events were in its queue, the others in dead letters. */
type Dropped = Reply<'autodrop'>['drops'][number];

/** The part of a script call that the next one goes on from. */
type Begun = Omit<Arguments<'autodrop'>, 'maxDeleted'>;

/**
 * The `autodrop` job: when Redis uses more memory than the high mark, drops the oldest dead letters and then the oldest batches,
 * down to the low mark or until none is left. If dropping everything would not help, because other data fills Redis, it drops
 * nothing and logs an error.
 */
export class Autodrop {
  readonly #store: Partition;
  readonly #settings: AutodropSettings;
  readonly #recorder: Recorder;
  readonly #log: Log;
  readonly #publicNames: PublicNames;
  #complainedAtMs = Number.NEGATIVE_INFINITY;

  constructor(store: Partition, settings: AutodropSettings, recorder: Recorder, log: Log) {
    this.#store = store;
    this.#settings = settings;
    this.#recorder = recorder;
    this.#log = log;
    this.#publicNames = new PublicNames(new Clients(store, settings.clients));
  }

  async run(signal: AbortSignal): Promise<void> {
    const shortage = await this.#lastingShortage(signal);
    if (!shortage) return;
    const { memory, targetBytes } = shortage;
    if (targetBytes === undefined) return this.#complain(shortage);
    this.#log.warn({ ...memory }, 'Redis is short of memory; dropping the oldest dead letters and batches');
    const drops = new Map<string, Drops>();
    try {
      for await (const dropped of this.#dropDownTo(targetBytes, signal)) {
        const { subscriber, queued, events } = dropped;
        if (queued > 0) this.#recorder.removed(subscriber, queued);
        this.#recorder.autodropped(subscriber, events);
        drops.set(subscriber, join(drops.get(subscriber), dropped));
      }
    } finally {
      await this.#report(drops);
    }
  }

  /** A shortage that dropping cannot end counts only if it is still there after a moment. */
  async #lastingShortage(signal: AbortSignal): Promise<Shortage | undefined> {
    const shortage = await findShortage(this.#store, this.#settings);
    if (!shortage || shortage.targetBytes !== undefined) return shortage;
    await pause(MOMENT_MS, signal);
    return findShortage(this.#store, this.#settings);
  }

  /** Drops until Redis uses the target, which is updated on the way; nothing is left; or dropping does not help any more. */
  async *#dropDownTo(firstTarget: number, signal: AbortSignal): AsyncGenerator<Dropped> {
    let target: number | undefined = firstTarget;
    let begun: Begun = { begunTopics: [] };
    for (let steps = 1; !signal.aborted; ) {
      const memory = await readMemory(this.#store, this.#settings);
      const { used, unfreed } = memory;
      if (target === undefined || used <= target) return;
      if (unfreed > 0) {
        await pause(FREEING_MS, signal);
        continue;
      }
      if (steps++ % STEPS_PER_TARGET === 0) {
        target = (await findTarget(this.#store, memory)).targetBytes;
        continue;
      }
      const maxDeleted = await this.#sliceSize(used, target);
      const reply = await this.#store.run('autodrop', { ...begun, maxDeleted });
      begun = reply;
      if (reply.deleted === 0 && begun.begunBid === undefined) return;
      yield* reply.drops;
    }
  }

  /**
   * How many batches to drop next: half of what would reach the target if all were of one size. The later steps drop the rest.
   * A fixed number could drop everything: a hundred batches of 400 kB fill a Redis of 40 MB.
   */
  async #sliceSize(used: number, target: number): Promise<number> {
    const [batches, letters] = await this.#store.command((redis, keys) =>
      Promise.all([redis.zcard(keys.batches_index()), redis.zcard(keys.dead_letters_index())]),
    );
    return Math.min(MAX_SLICE, Math.ceil(((batches + letters) * (used - target)) / used / 2));
  }

  /** Logs, not too often, that other data fills Redis, and what to do about it. */
  async #complain({ memory: { used, max, highMark }, droppableBytes }: Shortage): Promise<void> {
    if (clock.monotonicMs() - this.#complainedAtMs < COMPLAIN_EVERY_MS) return;
    this.#complainedAtMs = clock.monotonicMs();
    const expiringKeys = expiringIn(await this.#store.command((redis) => redis.info('keyspace')));
    this.#log.error(
      { used, max, highMark, droppableBytes: Math.round(droppableBytes), expiringKeys },
      'Redis is short of memory, and dropping batches does not help: other data fills it. expiringKeys are idempotency keys ' +
        'of 180 bytes each; if they are many, shorten ROUTEMASTER_IDEMPOTENCY_WINDOW. Otherwise raise maxmemory, or give the ' +
        'bus a Redis of its own',
    );
  }

  /** Logs what was dropped, with public names of subscribers: a token can be a credential. */
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
