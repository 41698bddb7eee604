import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import { clock, pause } from '../clock.ts';
import { DONE, type JobHandler } from '../delivering/job_handler.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { expiringIn, type MemoryLimits, readMemory } from '../store/memory.ts';
import type { ScriptArgument } from '../store/script_values.ts';
import type { Store } from '../store/store.ts';
import { fieldsOf, type Gap, readGap } from '../subscribing/gap.ts';
import { findAim, findShortage, type Shortage } from './shortage.ts';

/** The most batches that one script call drops: a few milliseconds of Redis. */
const SLICE = 300;

/** How long Redis is given to free what was dropped, before it is asked again. */
const FREEING_MS = 5;

/** Every so many steps it is looked again how much can be dropped: others may have come or gone, and it is an estimate. */
const STEPS_TO_AN_AIM = 50;

/** Calls of many clients at once can need much memory for a moment: after so long it is not that. */
const MOMENT_MS = 1000;

/** How often it is said that dropping does not help. */
const COMPLAIN_EVERY_MS = 60_000;

export interface AutodropSettings extends MemoryLimits {
  /** ROUTEMASTER_CLIENTS. */
  clients: readonly string[];
}

/** What was dropped of one subscriber. */
type Drops = Omit<Gap, 'topics'>;

/**
 * The `autodrop` job: beyond the high mark, drops the oldest dead letters and then batches, until the low mark or until
 * none is left. Drops nothing where all of it together would not bring the memory below the high mark: it is other things that
 * fill Redis then, and that is an error.
 */
export function autodropJob(
  store: Store,
  settings: AutodropSettings,
  recorder: Recorder,
  log: Log,
): JobHandler {
  const publicNames = new PublicNames(new Clients(store, settings.clients));
  const complain = complainer(store, log);
  return async (_grant, signal) => {
    const shortage = await lastingShortage(store, settings, signal);
    if (!shortage) return DONE;
    const { memory, aim } = shortage;
    if (aim === undefined) {
      await complain(shortage);
      return DONE;
    }
    log.warn({ ...memory }, 'Redis is short of memory; dropping the oldest dead letters and batches');
    const drops = new Map<string, Drops>();
    try {
      await dropUntil(aim, store, settings, signal, (token, queued, gap) => {
        if (queued > 0) recorder.removed(token, queued);
        recorder.autodropped(token, gap.events);
        drops.set(token, join(drops.get(token), gap));
      });
    } finally {
      await report(drops, publicNames, log);
    }
    return DONE;
  };
}

/** What is only for a moment is none, unless dropping helps. */
async function lastingShortage(
  store: Store,
  limits: MemoryLimits,
  signal: AbortSignal,
): Promise<Shortage | undefined> {
  const shortage = await findShortage(store, limits);
  if (!shortage || shortage.aim !== undefined) return shortage;
  await pause(MOMENT_MS, signal);
  return findShortage(store, limits);
}

/** Drops down to `firstAim` bytes, or what it is by then; or until nothing is left, or dropping does not help any more. */
async function dropUntil(
  firstAim: number,
  store: Store,
  limits: MemoryLimits,
  signal: AbortSignal,
  dropped: (token: string, queued: number, gap: Gap) => void,
): Promise<void> {
  let aim: number | undefined = firstAim;
  let begun: ScriptArgument[] = [];
  for (let steps = 1; !signal.aborted; ) {
    const memory = await readMemory(store, limits);
    const { used, unfreed } = memory;
    if (aim === undefined || used <= aim) return;
    if (unfreed > 0) {
      await pause(FREEING_MS, signal);
      continue;
    }
    if (steps++ % STEPS_TO_AN_AIM === 0) {
      ({ aim } = await findAim(store, memory));
      continue;
    }
    const reply = await store.run('autodrop', await slice(store, used, aim), ...begun);
    const [deleted, drops, next] = reply as [number, Dropped[], ScriptArgument[]];
    begun = next;
    if (deleted === 0 && begun.length === 0) return;
    for (const [token, queued, fields] of drops) {
      const gap = readGap(fieldsOf(fields));
      if (gap) dropped(String(token), queued, gap);
    }
  }
}

type Dropped = [token: Buffer, queued: number, fields: (Buffer | number)[]];

/**
 * Half of what would do if batches were all of one size: a hundred batches of 400 kB are everything that 20 MB hold.
 * What is still missing then goes in the next steps.
 */
async function slice(store: Store, used: number, aim: number): Promise<number> {
  const [batches, letters] = await store.command((redis, keys) =>
    Promise.all([redis.zcard(keys.batches_index()), redis.zcard(keys.dead_letters_index())]),
  );
  return Math.min(SLICE, Math.ceil(((batches + letters) * (used - aim)) / used / 2));
}

/** Says, not too often, that Redis holds too much which cannot be dropped, and what to do. */
function complainer(store: Store, log: Log): (shortage: Shortage) => Promise<void> {
  let saidAtMs = Number.NEGATIVE_INFINITY;
  return async ({ memory: { used, max, highMark }, droppable }) => {
    if (clock.monotonicMs() - saidAtMs < COMPLAIN_EVERY_MS) return;
    saidAtMs = clock.monotonicMs();
    const expiringKeys = expiringIn(await store.command((redis) => redis.info('keyspace')));
    const droppableBytes = Math.round(droppable);
    log.error(
      { used, max, highMark, droppableBytes, expiringKeys },
      'Redis is short of memory for other things than what is queued, and dropping that does not help. expiringKeys are ' +
        'idempotency keys, 180 bytes each: shorten ROUTEMASTER_IDEMPOTENCY_WINDOW if they are many. Otherwise raise maxmemory, ' +
        'or give the bus a Redis of its own',
    );
  };
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

/** Logs what was dropped of whom, by public names: a token can be a credential. */
async function report(drops: ReadonlyMap<string, Drops>, publicNames: PublicNames, log: Log): Promise<void> {
  const name = await publicNames.of(drops.keys());
  for (const [token, { batches, events, fromMs, toMs }] of drops)
    log.warn({ subscriber: name(token), batches, events, fromMs, toMs }, 'dropped the oldest batches');
}
