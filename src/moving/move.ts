import { BootError, StorageForbidden, StorageFull, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import { SCHEMA } from '../maintenance/schema.ts';
import type { Partitions } from '../store/partitions.ts';
import { throwForOperator } from '../store/refusal.ts';
import { msOf } from '../store/replies.ts';
import { TopicMarks } from '../subscribing/topic_marks.ts';
import { sumOf } from '../sum.ts';
import {
  checkSource,
  checkTarget,
  fillingText,
  readCount,
  refuseSecondRun,
  runningProcesses,
  scriptCallers,
  storeCount,
} from './checks.ts';
import { copyKeys } from './copying.ts';
import { countKeys, countsIn, type KeyCounts } from './key_counts.ts';
import { scanned } from './scanning.ts';
import type { Side } from './side.ts';
import { newMove, readMove, type StoredMove, storeMove } from './stored_move.ts';

/** Number of topics that `markTopics` asks Redis for at a time. */
const TOPICS_PER_SCAN = 300;

interface Move {
  source: Side;
  target: Side;
  leaseMs: number;
  /**
   * If true, connections that run scripts in the source's Redis are ignored, because the user has said that they belong
   * to another bus. If false, such connections make the move fail, because they may belong to this bus.
   */
  ignoresCallers: boolean;
  /** Called with the number of keys copied so far, and with the approximate number of all keys. */
  progress: (done: number, total: number) => void;
  log: Log;
}

/**
 * For each kind of data, such as topics, how many the source and the target have. Empty if an earlier run has already
 * found that the numbers are equal.
 */
export type Comparison = { what: string; source: number; target: number }[];

export function isWhole(comparison: Comparison): boolean {
  return comparison.every(({ source, target }) => source === target);
}

/**
 * Copies a stopped bus with one partition into a bus with several. The source keeps its data, and gets the key `move`,
 * so that no process starts on the source. If an earlier run was interrupted, copies everything again. Throws BootError
 * if a person must act.
 */
export function move(parts: Move): Promise<Comparison> {
  return moveAll(parts).catch((error: unknown) => explain(error, parts.source));
}

/**
 * Throws a BootError that says what to do about the error of a move. Throws the error itself if nothing can be advised.
 */
function explain(error: unknown, { partitions }: Side): Promise<never> {
  const cause = { cause: error };
  if (error instanceof StorageFull)
    throw new BootError(
      'Redis has no memory left: that of the target or that of the source. Give it more, and run the same command ' +
        'again.',
      cause,
    );
  if (error instanceof StorageUnavailable && !(error instanceof StorageForbidden))
    throw new BootError('Redis went away. Run the same command again when it is back.', cause);
  return throwForOperator(partitions.all, error);
}

async function moveAll(parts: Move): Promise<Comparison> {
  const { source, target, leaseMs, ignoresCallers, progress, log } = parts;
  if (target.partitions.all.length === 1)
    throw new BootError(
      '--partitions must be 2 or more. docs/scale.md says how to move a bus to another Redis as it is.',
    );
  await refuseSecondRun(source);
  const stored = await begunOrNew(parts);
  if (stored.doneMs !== undefined) {
    // An earlier run has moved all data. But perhaps it was cut off before its last step, which stores the target's
    // number of partitions. Until then, the target has another text instead (`fillingText`). So this run stores the
    // number.
    if ((await readCount(target)) !== fillingText(stored))
      throw new BootError(`This bus was moved to ${stored.to} already.`);
    await storeCount(target, String(stored.partitions));
    return [];
  }
  await checkSource(source, leaseMs);
  if (!ignoresCallers) await refuseCallers(source);
  const { control } = source.partitions;
  await checkTarget(source, target, stored, log);
  await storeMove(control, stored);
  await storeCount(target, fillingText(stored));
  const before = await countKeys(source.partitions);
  await copy(parts, (done) => progress(done, before.keys));
  const change = await changeOf(source.partitions, before);
  if (change !== undefined)
    throw new BootError(
      `The bus changed while it was moved: ${change}. A process still uses it. ` +
        `Stop it, empty the target, delete ${control.keys.move()} and move again.`,
    );
  const comparison = compare(before, await countKeys(target.partitions));
  if (isWhole(comparison)) await finish(parts, stored);
  return comparison;
}

/**
 * Returns a text that shows that the source is still in use: a number of keys or elements that has changed since
 * `before`, or the number of running processes. Returns undefined if nothing shows this.
 */
async function changeOf(partitions: Partitions, before: KeyCounts): Promise<string | undefined> {
  const changed = compare(before, await countKeys(partitions)).find((each) => each.source !== each.target);
  if (changed) return `${changed.what} were ${changed.source} and are ${changed.target}`;
  // Processes are counted again here. The count at the beginning missed any process that was still starting, and such a
  // process may change data at any time.
  const running = await runningProcesses(partitions.control);
  return running && `${running} have started`;
}

async function refuseCallers(source: Side): Promise<void> {
  const callers = await scriptCallers(source.partitions);
  if (callers.length === 0) return;
  throw new BootError(
    `Connections from ${callers.join(', ')} run scripts in the Redis of the bus. If they are of this bus, stop its web ` +
      'processes. If they are of another bus, use --ignore-connections.',
  );
}

async function begunOrNew({ source, target }: Move): Promise<StoredMove> {
  const partitions = target.partitions.all.length;
  const stored = await readMove(source.partitions.control);
  if (!stored) return newMove(target.name, partitions);
  const { control } = source.partitions;
  if (stored.to !== target.name || stored.partitions !== partitions)
    throw new BootError(
      `This bus is being moved, or was moved, to ${stored.partitions} partitions in ${stored.to}. ` +
        `To move it elsewhere: redis-cli DEL ${control.keys.move()}`,
    );
  return stored;
}

async function copy({ source, target }: Move, progress: (done: number) => void): Promise<void> {
  let done = 0;
  const moving = { source: source.partitions.control, target: target.partitions };
  for await (const keys of copyKeys(moving)) {
    done += keys;
    progress(done);
  }
  await markTopics(source, target);
}

/**
 * Sets the marks of all topics. A mark makes the bus pass a topic's events on to another partition that has subscribers
 * of the topic.
 */
async function markTopics(source: Side, { partitions }: Side): Promise<void> {
  const marks = new TopicMarks(partitions);
  const scan = source.partitions.control.scan((redis, keys, cursor) =>
    redis.sscan(keys.topics(), cursor, 'COUNT', TOPICS_PER_SCAN),
  );
  for await (const topics of scan)
    for (const partition of partitions.all) await marks.refresh(partition, topics);
}

function compare(source: KeyCounts, target: KeyCounts): Comparison {
  const [before, after] = [countsIn(source), countsIn(target)];
  return [...before].map(([what, count]) => ({ what, source: count, target: after.get(what) ?? 0 }));
}

/**
 * Ends a move. First stores in the source that the move is done. Then stores the number of partitions in the target,
 * which lets processes start there. In the opposite order, a repeated `bin/move` might copy old data over what these
 * processes have stored.
 */
async function finish({ source, target }: Move, stored: StoredMove): Promise<void> {
  for (const partition of target.partitions.all)
    await partition.command((redis, keys) => redis.set(keys.schema(), SCHEMA));
  const { control } = source.partitions;
  const doneMs = msOf(await control.command((redis) => redis.time()));
  await storeMove(control, { ...stored, doneMs });
  await storeCount(target, String(stored.partitions));
}

/**
 * Deletes the data of a bus that was moved elsewhere. Keeps the key `move`, so that no process starts on this bus.
 * Returns the number of deleted keys. Throws BootError unless the move is finished.
 */
export async function deleteMoved({ partitions }: Side): Promise<number> {
  const { control: source } = partitions;
  const stored = await readMove(source);
  if (stored?.doneMs === undefined) throw new BootError('This bus was not moved, so nothing is deleted.');
  let deleted = 0;
  for await (const keys of scanned([source])) {
    const others = keys.filter(({ name }) => name !== 'move');
    deleted += sumOf(
      await source.command((redis) => Promise.all(others.map(({ key }) => redis.unlink(key)))),
    );
  }
  return deleted;
}
