import { decode, encode } from '@msgpack/msgpack';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';

/**
 * The name of every counter, under a comment that lists its tags. Times are in ms. The tag `queue` is a
 * subscriber's token, except where its values are main and aux. The counters from the first to `process` have
 * the names and tags that the Ruby Routemaster gave them, so that the totals it stored continue.
 */
export const COUNTER_NAMES = [
  // topic
  'events.published',
  'events.bytes',
  // queue
  'events.added',
  'events.removed',
  'events.autodropped',
  // queue, status: success or failure. `time2` is the sum of the squares.
  'delivery.events',
  'delivery.batches',
  'delivery.time',
  'delivery.time2',
  // queue. `count` counts the batches tried at least once. The others sum the ms since the batches were
  // created.
  'latency.batches.count',
  'latency.batches.first_attempt',
  'latency.batches.last_attempt',
  // queue: main or aux
  'jobs.scrubbed',
  'workers.scrubbed',
  // status: start or stop; type: web or worker
  'process',
  // queue, reason. The Ruby Routemaster has neither these counters nor the ones below.
  'events.dead_lettered',
  'batches.dead_lettered',
  // reason: see src/authentication/caller.ts
  'authentication.failed',
  // No tags. Failed authentications that were answered 429.
  'authentication.slowed',
  // kind: see src/maintenance/sweep/finding.ts
  'sweep.findings',
  // status; le (in buckets): the upper bound in seconds. Each bucket counts only values above the previous
  // bound.
  'delivery.duration.bucket',
  'delivery.duration.sum',
  'latency.end_to_end.bucket',
  'latency.end_to_end.sum',
] as const;

export type CounterName = (typeof COUNTER_NAMES)[number];

export type Tags = Readonly<Record<string, string>>;

/** One counter of the whole bus, with its total since the bus was installed. */
export interface Count {
  name: string;
  tags: Tags;
  value: number;
  /** The packed name and tags, which identify the counter. */
  field: Buffer;
}

/** A field of the hash `counters`: MessagePack `[name, [[tag, value], …]]`, sorted by tag. */
export function packField(name: string, tags: Tags): Buffer {
  const pairs = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(encode([name, pairs]));
}

/** Returns the name and the tags of a packed field; undefined if the bytes are not such a field. */
export function unpackField(field: Buffer): { name: string; tags: Tags } | undefined {
  try {
    const [name, pairs] = decode(field) as [unknown, [unknown, unknown][]];
    return {
      name: text(name),
      tags: Object.fromEntries(pairs.map(([tag, value]) => [text(tag), text(value)])),
    };
  } catch {
    return undefined;
  }
}

/** Also accepts bytes: Ruby packs a string of unknown encoding so. Throws TypeError for other values. */
function text(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  throw new TypeError('not text');
}

/** Reads all counters from Redis. Skips unreadable fields with a warning. Throws as Partition does. */
export async function readCounts(control: Partition, log: Log): Promise<Count[]> {
  // `hgetall` would decode the fields as text, but they are binary.
  const reply = await control.command((redis, keys) => redis.callBuffer('HGETALL', keys.counters()));
  const flat = reply as Buffer[];
  const counts = new Map<string, Count>();
  let unreadable = 0;
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const series = unpackField(flat[i] as Buffer);
    const value = Number(flat[i + 1]);
    if (series && Number.isFinite(value)) add(counts, series, value);
    else unreadable++;
  }
  if (unreadable > 0) log.warn({ fields: unreadable }, 'skipped unreadable fields of the counters hash');
  return [...counts.values()];
}

/**
 * Adds the value of one field to its counter. A counter can have several fields, since Ruby packs the same
 * name or tag as text or as bytes, depending on its encoding.
 */
function add(counts: Map<string, Count>, { name, tags }: { name: string; tags: Tags }, value: number): void {
  const field = packField(name, tags);
  const id = field.toString('latin1');
  const known = counts.get(id);
  if (known) known.value += value;
  else counts.set(id, { name, tags, value, field });
}
