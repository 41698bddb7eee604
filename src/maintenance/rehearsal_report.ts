import type { Rehearsal } from './rehearsal.ts';

export interface Report {
  /** True if the operator has nothing to do before this bus takes over the Redis of a Ruby Routemaster. */
  ready: boolean;
  text: string;
}

/** What the report says about the environment variables of the bus. */
export interface EnvironmentNotes {
  /** Faults that would keep web processes from starting after the takeover from the Ruby Routemaster. */
  toDo: readonly string[];
  toKnow: readonly string[];
}

/** Maximum items of one kind that the report lists. */
const MAX_LISTED = 20;

/**
 * Bytes that a takeover adds to each batch of a Ruby Routemaster, rounded up: about 125 for the entry in the
 * subscriber's index, and 95 more if the first delivery fails. (60,000 batches of one event took 37.8 MB before the
 * takeover, 45.4 MB after it, and 51.1 MB when all had failed.)
 */
const BYTES_A_BATCH = 250;
/**
 * Bytes that a takeover adds, at most, for each batch without a job, and for each batch without an entry in
 * `batches:index`. (30,000 jobs took 6.0 MB, and 30,000 entries 3.8 MB.)
 */
const BYTES_A_MISSING = 200;

/** Returns the report of a rehearsal of the takeover. */
export function reportOf(found: Rehearsal, environment: EnvironmentNotes, leaseMs: number): Report {
  if (found.layout !== undefined) {
    const text = `There is nothing to take over: this bus uses this Redis already (layout ${found.layout}). Nothing was changed.`;
    return { ready: true, text };
  }
  const toDo = [...thingsToDo(found, leaseMs), ...environment.toDo];
  const parts = [
    'A takeover of this Redis would find:',
    ...counts(found).map((line) => `  ${line}`),
    ...section('Before it:', toDo),
    ...section('Good to know:', [...thingsToKnow(found), ...environment.toKnow]),
    '',
    `${toDo.length === 0 ? 'It can be taken over. ' : ''}Nothing was changed.`,
  ];
  return { ready: toDo.length === 0, text: parts.join('\n') };
}

function section(title: string, items: readonly string[]): string[] {
  return items.length === 0 ? [] : ['', title, ...items.map((item) => `  - ${item}`)];
}

function counts({ subscribers, topics, clients, batches, oldestAtMs }: Rehearsal): string[] {
  const since = oldestAtMs === undefined ? '' : `, the oldest since ${new Date(oldestAtMs).toISOString()}`;
  return [
    `${topics} topics, ${subscribers} subscribers, ${clients} clients`,
    `${batches.count} batches of ${batches.events} events${since}`,
  ];
}

function thingsToDo({ unfit, workers, memory, batches, refused }: Rehearsal, leaseMs: number): string[] {
  const toDo = unfit === undefined ? [] : [unfit];
  if (workers.count > 0)
    toDo.push(
      `${workers.count} Ruby workers run (heard of ${Math.round(workers.silentMs / 1000)} s ago): stop them, and wait ` +
        `${leaseMs / 1000} s. Ruby web processes may go on`,
    );
  const needed = batches.count * BYTES_A_BATCH + (batches.jobless + batches.unindexed) * BYTES_A_MISSING;
  if (memory.used + needed > memory.highMark)
    toDo.push(
      `Redis stores ${megabytes(memory.used)}, and needs up to ${megabytes(needed)} more. Above ` +
        `${megabytes(memory.highMark)} this bus drops the oldest batches: raise maxmemory, and ` +
        'ROUTEMASTER_REDIS_MAX_MEM if it is set, or have the Ruby workers deliver more before',
    );
  for (const { subscriber, callback, reason } of refused.slice(0, MAX_LISTED))
    toDo.push(`the callback of ${subscriber} at ${callback} would be refused: ${reason}`);
  if (refused.length > MAX_LISTED) toDo.push(`and ${refused.length - MAX_LISTED} other callbacks`);
  return toDo;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function thingsToKnow({ batches, converted, lost, shortTokens }: Rehearsal): string[] {
  const toKnow: string[] = [];
  if (batches.jobless > 0) toKnow.push(`${batches.jobless} batches have no job: each gets one, due at once`);
  if (batches.unindexed > 0)
    toKnow.push(`${batches.unindexed} batches are not in batches:index: the first sweep takes them over`);
  if (batches.unreadable > 0)
    toKnow.push(
      `${batches.unreadable} lists do not begin with subscriber, time and attempts: they stay as they are`,
    );
  if (converted > 0)
    toKnow.push(
      `${converted} more batches were taken over by a start that was cut off; the next start goes on. Ruby cannot ` +
        'read them any more',
    );
  if (lost > 0) toKnow.push(`${lost} entries of batches:index name no batch: they are removed`);
  if (shortTokens.length > 0)
    toKnow.push(
      `tokens of fewer than 16 characters work on, but can be guessed: ${shortTokens.slice(0, MAX_LISTED).join(', ')}`,
    );
  return toKnow;
}
