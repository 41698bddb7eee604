import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import { clock, pause } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { expiringIn, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { ScriptArgument } from '../store/script_values.ts';
import type { Store } from '../store/store.ts';
import { type DropNotice, fieldsOf, readDropNotice } from '../subscribing/drop_notice.ts';
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
interface Dropped {
  token: string;
  queued: number;
  notice: DropNotice;
}

type ReplyRow = [token: Buffer, queued: number, fields: (Buffer | number)[]];

/**
 * The `autodrop` job: when Redis uses more memory than the high mark, drops the oldest dead letters and then the oldest batches,
 * down to the low mark or until none is left. If dropping everything would not help, because other data fills Redis, it drops
 * nothing and logs an error.
 */
export function autodropJob(
  store: Store,
  settings: AutodropSettings,
  recorder: Recorder,
  log: Log,
): (signal: AbortSignal) => Promise<void> {
  const publicNames = new PublicNames(new Clients(store, settings.clients));
  const complaint = new Complaint(store, log);
  return async (signal) => {
    const shortage = await lastingShortage(store, settings, signal);
    if (!shortage) return;
    const { memory, targetBytes } = shortage;
    if (targetBytes === undefined) return complaint.log(shortage);
    log.warn({ ...memory }, 'Redis is short of memory; dropping the oldest dead letters and batches');
    const drops = new Map<string, Drops>();
    try {
      for await (const { token, queued, notice } of dropDownTo(targetBytes, store, settings, signal)) {
        if (queued > 0) recorder.removed(token, queued);
        recorder.autodropped(token, notice.events);
        drops.set(token, join(drops.get(token), notice));
      }
    } finally {
      await report(drops, publicNames, log);
    }
  };
}

/** A shortage that dropping cannot end counts only if it is still there after a moment. */
async function lastingShortage(
  store: Store,
  limits: MemoryLimits,
  signal: AbortSignal,
): Promise<Shortage | undefined> {
  const shortage = await findShortage(store, limits);
  if (!shortage || shortage.targetBytes !== undefined) return shortage;
  await pause(MOMENT_MS, signal);
  return findShortage(store, limits);
}

/** Drops until Redis uses the target, which is updated on the way; nothing is left; or dropping does not help any more. */
async function* dropDownTo(
  firstTarget: number,
  store: Store,
  limits: MemoryLimits,
  signal: AbortSignal,
): AsyncGenerator<Dropped> {
  let target: number | undefined = firstTarget;
  let begun: ScriptArgument[] = [];
  for (let steps = 1; !signal.aborted; ) {
    const memory = await readMemory(store, limits);
    const { used, unfreed } = memory;
    if (target === undefined || used <= target) return;
    if (unfreed > 0) {
      await pause(FREEING_MS, signal);
      continue;
    }
    if (steps++ % STEPS_PER_TARGET === 0) {
      target = (await findTarget(store, memory)).targetBytes;
      continue;
    }
    const reply = await store.run('autodrop', await sliceSize(store, used, target), ...begun);
    const [deleted, rows, next] = reply as [number, ReplyRow[], ScriptArgument[]];
    begun = next;
    if (deleted === 0 && begun.length === 0) return;
    for (const [token, queued, fields] of rows) {
      const notice = readDropNotice(fieldsOf(fields));
      if (notice) yield { token: String(token), queued, notice };
    }
  }
}

/**
 * How many batches to drop next: half of what would reach the target if all were of one size. The later steps drop the rest.
 * A fixed number could drop everything: a hundred batches of 400 kB fill a Redis of 40 MB.
 */
async function sliceSize(store: Store, used: number, target: number): Promise<number> {
  const [batches, letters] = await store.command((redis, keys) =>
    Promise.all([redis.zcard(keys.batches_index()), redis.zcard(keys.dead_letters_index())]),
  );
  return Math.min(MAX_SLICE, Math.ceil(((batches + letters) * (used - target)) / used / 2));
}

/** The error for a Redis that other data fills, with what to do about it. */
class Complaint {
  readonly #store: Store;
  readonly #log: Log;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(store: Store, log: Log) {
    this.#store = store;
    this.#log = log;
  }

  /** Does nothing if it was called shortly before. */
  async log({ memory: { used, max, highMark }, droppableBytes }: Shortage): Promise<void> {
    if (clock.monotonicMs() - this.#loggedAtMs < COMPLAIN_EVERY_MS) return;
    this.#loggedAtMs = clock.monotonicMs();
    const expiringKeys = expiringIn(await this.#store.command((redis) => redis.info('keyspace')));
    this.#log.error(
      { used, max, highMark, droppableBytes: Math.round(droppableBytes), expiringKeys },
      'Redis is short of memory, and dropping batches does not help: other data fills it. expiringKeys are idempotency keys ' +
        'of 180 bytes each; if they are many, shorten ROUTEMASTER_IDEMPOTENCY_WINDOW. Otherwise raise maxmemory, or give the ' +
        'bus a Redis of its own',
    );
  }
}

function join(one: Drops | undefined, other: Drops): Drops {
  if (!one) return other;
  return {
    batches: one.batches + other.batches,
    events: one.events + other.events,
    fromMs: Math.min(one.fromMs, other.fromMs),
    toMs: Math.max(one.toMs, other.toMs),
  };
}

/** Logs what was dropped, with public names of subscribers: a token can be a credential. */
async function report(drops: ReadonlyMap<string, Drops>, publicNames: PublicNames, log: Log): Promise<void> {
  const name = await publicNames.of(drops.keys());
  for (const [token, { batches, events, fromMs, toMs }] of drops)
    log.warn({ subscriber: name(token), batches, events, fromMs, toMs }, 'dropped the oldest batches');
}
